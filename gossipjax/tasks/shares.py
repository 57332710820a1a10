"""Distributes the examples of any task over workers: `config.split`."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from gossipjax.data import split as splits
from gossipjax.data.examples import (
  Shares,
  Subset,
  as_examples,
  labels_of,
  take_rows,
)
from gossipjax.data.holdout import hold_out
from gossipjax.data.sources import Source
from gossipjax.errors import UserError, nearest
from gossipjax.tasks.task import Task, count

# (labels or places int[n], workers, seed, alpha, shards) -> int[workers, m].
SPLITS: Mapping[str, Callable[..., np.ndarray]] = {
  'iid': lambda n, workers, seed, alpha, shards: splits.iid(n, workers, seed),
  'contiguous': lambda n, workers, seed, alpha, shards: splits.contiguous(
    n, workers, seed
  ),
  'dirichlet': lambda labels, workers, seed, alpha, shards: splits.dirichlet(
    labels, workers, seed, alpha
  ),
  'label': lambda labels, workers, seed, alpha, shards: splits.by_label(
    labels, workers, seed, shards
  ),
}
EXAMPLES = ('train', 'test', 'validation')
LABELLED = ('dirichlet', 'label')  # Those that need labels.


def share_out(
  task: Task,
  workers: int,
  seed: int,
  mine: slice = slice(None),
  *,
  name: str = 'iid',
  alpha: float = 0.5,
  shards: int = 2,
  holdout: str = 'test',
  validation: float = 0.1,
  examples: int | None = None,
) -> Task:
  """Returns the task with a share of its examples for each worker.

  Args:
    task: with arrays [examples, ...].
    workers: number of shares.
    seed: of the draws.
    mine: the workers whose shares are returned.
    name: iid, contiguous, dirichlet or label, see data/split.py.
    alpha: of dirichlet; the smaller, the more the workers differ.
    shards: of label; runs of examples sorted by label for each worker.
    holdout: 'test', or 'validation' for tuning without the test set: the task's
      own validation set, otherwise the last of the training set.
    validation: share of the training set for that, in (0, 1).
    examples: at most so many for each worker, for quick runs.

  Returns:
    `train` is arrays [workers, m, ...] or `Shares`; `test` is held out.

  Raises:
    UserError: an argument is out of range, or the task has no labels.
  """
  if name not in SPLITS:
    raise UserError(
      f'split.name: there is no split {name!r}{nearest(name, SPLITS)}'
    )
  sets = {x: as_examples(getattr(task, x), x) for x in EXAMPLES}
  task = task._replace(**sets)
  total, _ = count(task.train, 'train'), count(task.test, 'test')
  labels = _labels(task, total) if name in LABELLED else np.arange(total)
  if holdout == 'validation' and task.validation is not None:
    count(task.validation, 'validation')
    kept, test = np.arange(total), task.validation
  else:
    kept, held = hold_out(np.arange(total), None, holdout, validation)
    _check_held(task, total, kept, held)
    test = task.test if held is None else _take_rows(task.train, held)
  rows = SPLITS[name](labels[kept], workers, seed, alpha, shards)[mine]
  rows = kept[splits.cut(rows, examples)]
  shared = (
    Shares(task.train, rows)
    if isinstance(task.train, Source)
    else _take_rows(task.train, rows)
  )
  return task._replace(train=shared, test=test)


def _take_rows(examples: Any, rows: np.ndarray) -> Any:
  """Rows of a source, unread, or of arrays."""
  if isinstance(examples, Source):
    return Subset(examples, rows)
  return take_rows(examples, rows)


def known_labels(task: Task, total: int) -> np.ndarray | None:
  """A label of each training example, int[total]; None if there is none."""
  labels = task.labels
  if labels is None and isinstance(task.train, Source):
    labels = task.train.labels
  return labels_of(_targets(task) if labels is None else labels, total)


def _targets(task: Task) -> Any:
  """The last of several training arrays; None for one array or a source."""
  if isinstance(task.train, Source):
    return None
  *others, last = jax.tree.leaves(task.train)
  return last if others else None


def _check_held(
  task: Task, total: int, kept: np.ndarray, held: np.ndarray | None
) -> None:
  """Raises a UserError if the last examples would be held out of examples that
  are sorted by label, or by the target of a regression."""
  if held is None:
    return
  kind, disjoint = 'labels', False
  if (labels := known_labels(task, total)) is None:
    kind, labels = 'targets', _targets(task)
    if np.shape(labels) != (total,) or np.asarray(labels).dtype.kind != 'f':
      return
  elif len(np.unique(labels)) == len(labels):  # All differ.
    return
  else:
    disjoint = not np.intersect1d(labels[kept], labels[held]).size
    labels = labels.astype(np.int64)
  steps = np.diff(labels)
  ordered = steps.any() and ((steps >= 0).all() or (steps <= 0).all())
  if disjoint or ordered:
    raise UserError(
      'split.holdout=validation holds out the last training examples, but they '
      f'are in the order of their {kind}; shuffle them, or give the task '
      'examples for `validation`.'
    )


def _labels(task: Task, total: int) -> np.ndarray:
  """A label of each training example, int[total]."""
  if (found := known_labels(task, total)) is None:
    raise UserError(
      'split.name: dirichlet and label need a label of each training example, '
      'an integer; this task has none. Use iid or contiguous, or give the task '
      'labels.'
    )
  return found
