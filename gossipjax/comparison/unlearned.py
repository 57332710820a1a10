"""Runs that learned little or nothing.

Often their learning rate is too high. Who of them reaches a score first says
nothing about strategies.
"""

import pathlib
from collections.abc import Iterable

import numpy as np

from gossipjax.comparison import units
from gossipjax.results import record_file, workdir
from gossipjax.results.reader import Run
from gossipjax.tasks.shares import known_labels
from gossipjax.tasks.task import Task, count

KEY = 'most_frequent_label'  # In the summary of a run.


def most_frequent_label(task: Task) -> float | None:
  """The share of the most frequent label among held-out examples.

  Returns:
    From 0 to 1: the accuracy of always naming that label. None if the test set
    has no label for each example, as the last of several arrays or as the
    `labels` of its source.
  """
  total = count(task.test, 'task.test')
  held_out = task._replace(train=task.test, labels=None)
  if (labels := known_labels(held_out, total)) is None:
    return None
  return float(np.unique(labels, return_counts=True)[1].max() / total)


def why(runs: Iterable[Run | None], metric: str, higher: bool) -> str:
  """How it shows that no run of a strategy learned anything; '' if one did.

  Args:
    runs: one for each seed; None if it diverged.
    metric: the column of the score that they are judged by.
    higher: whether large values of it are good.
  """
  reasons = [
    _constant(run) or _rose(run, metric, higher) for run in runs if run
  ]
  return reasons[0] if reasons and all(reasons) else ''


def in_folders(
  folders: Iterable[pathlib.Path], metric: str, higher: bool
) -> str:
  """As `why`, for the folders of short finished runs, one for each seed."""

  def run(folder: pathlib.Path) -> Run:
    path = folder / workdir.RECORDS  # Missing if it diverged before a record.
    records = record_file.columns(path) if path.exists() else {}
    end = workdir.summary(folder)
    return Run(folder.parent, folder.name, {}, records, end)

  return why(map(run, folders), metric, higher)


def _constant(run: Run) -> str:
  """The best accuracy exceeds the share s of the most frequent label by less
  than s (1 - s) / 10: 12 % for ten labels that are equally frequent."""
  share = (run.summary or {}).get(KEY)
  accuracy = run.numbers('test_accuracy')
  if share is None or not accuracy.size:
    return ''
  if accuracy.max() > share + share * (1 - share) / 10:
    return ''
  return (
    'always naming the most frequent label has an accuracy of '
    f'{100 * share:.2f} %'
  )


def _rose(run: Run, metric: str, higher: bool) -> str:
  """From its first record to its last the training loss rose by more than a
  tenth, and the score became worse."""
  losses, scores = run.numbers('train_loss'), run.numbers(metric)
  if not losses.size or not scores.size:
    return ''
  first, last = losses[0], losses[-1]
  gained = (scores[-1] - scores[0]) * (1 if higher else -1)
  if last - first <= abs(first) / 10 or gained >= 0:
    return ''
  return (
    f'the training loss rose from {units.loss(first)} to {units.loss(last)}'
  )
