"""Runs that are hardly better than always naming the most frequent label.

Their models have learned nothing, often since the learning rate is too high:
who of them reaches a score first says nothing about strategies.
"""

from collections.abc import Iterable

import jax
import numpy as np

from gossipjax.data.examples import labels_of
from gossipjax.data.sources import Source
from gossipjax.results.reader import Run
from gossipjax.tasks.task import Task, count

KEY = 'most_frequent_label'  # In the summary of a run.


def share(task: Task) -> float | None:
  """The share of the most frequent label among held-out examples.

  Returns:
    From 0 to 1: the accuracy of always naming that label. None if the test set
    has no label for each example, as the last of its arrays or as the `labels`
    of its source.
  """
  test = task.test
  given = test.labels if isinstance(test, Source) else jax.tree.leaves(test)[-1]
  total = count(test, 'task.test')
  if given is None or (labels := labels_of(given, total)) is None:
    return None
  return float(np.unique(labels, return_counts=True)[1].max() / total)


def hardly_better(runs: Iterable[Run | None]) -> float | None:
  """The share of the most frequent label, if no run learned much more.

  A run counts as no better if its best accuracy exceeds the share by less than
  a tenth of share (1 - share): 12 % for ten labels that are equally frequent.

  Args:
    runs: of a strategy, one for each seed; None if it diverged.

  Returns:
    The largest share; None if a run is better, or if no run has an accuracy and
    a share.
  """
  shares = []
  for run in filter(None, runs):
    known = (run.summary or {}).get(KEY)
    accuracy = run.records.get('test_accuracy', np.array([]))
    accuracy = accuracy[~np.isnan(accuracy)]
    if known is None or not accuracy.size:
      continue
    if accuracy.max() > known + known * (1 - known) / 10:
      return None
    shares.append(known)
  return max(shares, default=None)
