"""Shares out the examples of any task: `config.split`."""

from collections.abc import Callable, Mapping

import jax
import numpy as np

from gossipjax.data import split as splits
from gossipjax.data.holdout import hold_out
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
  """The task with a share of its examples for each worker.

  Args:
    task: with arrays [examples, ...].
    workers: number of shares.
    seed: of the draws.
    mine: the workers whose shares are wanted.
    name: iid, contiguous, dirichlet or label, see data/split.py.
    alpha: of dirichlet; the smaller, the more the workers differ.
    shards: of label; runs of one label each worker gets.
    holdout: 'test', or 'validation' for tuning without a look at the test
      set: the task's own, otherwise the last of the training set.
    validation: that part of the training set, in (0, 1).
    examples: at most so many for each worker, for quick runs.

  Returns:
    With `train` as arrays [workers, m, ...] and `test` as what is held out.

  Raises:
    UserError: an argument is out of range, or the task has no labels.
  """
  if name not in SPLITS:
    raise UserError(
      f'split.name: there is no split {name!r}{nearest(name, SPLITS)}'
    )
  total, _ = count(task.train, 'train'), count(task.test, 'test')
  labels = _labels(task, total) if name in LABELLED else np.arange(total)
  if holdout == 'validation' and task.validation is not None:
    count(task.validation, 'validation')
    train, test = task.train, task.validation
  else:
    (train, labels), test = hold_out(
      (task.train, labels), task.test, holdout, validation
    )
    test = test[0] if holdout == 'validation' else test
  rows = SPLITS[name](labels, workers, seed, alpha, shards)[mine]
  shared = splits.share(jax.tree.map(np.asarray, train), rows, examples)
  return task._replace(train=shared, test=jax.tree.map(np.asarray, test))


def _labels(task: Task, total: int) -> np.ndarray:
  """A label of each training example, int[total]."""
  *others, last = jax.tree.leaves(task.train)
  found = np.asarray(last if task.labels is None else task.labels)
  given = task.labels is not None or others
  if not given or found.shape != (total,) or found.dtype.kind not in 'iu':
    raise UserError(
      'split.name: dirichlet and label need a label of each training example; '
      'this task has none. Use iid or contiguous, or give the task labels.'
    )
  return found
