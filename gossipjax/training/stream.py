"""Batches of a data source, read ahead by grain.

A batch is a pure function of the seed, the worker and the step, so that the
position of a run is its step, and a resumed run reads what an uninterrupted one
would.
"""

import functools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax.aggregator import Tree
from gossipjax.data.batch import batch_indices, check_size
from gossipjax.data.examples import Shares, stacked
from gossipjax.errors import require
from gossipjax.training.run import Run

_BLOCK = 64  # Steps whose rows are computed together.
_THREADS, _AHEAD = 8, 16  # Threads that read; batches that are read ahead.


class Batches:
  """The batches of a run whose examples come from a source."""

  def __init__(self, run: Run):
    self._shares: Shares = run.task.train
    self._steps = run.steps
    mine = jnp.arange(run.workers)[run.executor.local_workers]
    key, size = jax.random.key(run.seed), run.batch_size
    share = self._shares.rows.shape[1]
    check_size(size, share)

    def of_worker(worker, t):
      order, _ = jax.random.split(jax.random.fold_in(key, worker))
      return batch_indices(order, t, size, share)

    of_all = jax.vmap(of_worker, in_axes=(0, None))
    steps = jax.jit(jax.vmap(of_all, in_axes=(None, 0)))
    self._block = functools.lru_cache(2)(
      lambda block: np.asarray(steps(mine, block * _BLOCK + jnp.arange(_BLOCK)))
    )

  def __len__(self) -> int:
    return self._steps

  def __getitem__(self, step: int) -> Tree:
    """The batches of this process's workers, arrays [workers, size, ...]."""
    rows = self._block(step // _BLOCK)[step % _BLOCK]
    chosen = np.take_along_axis(self._shares.rows, rows, axis=1)
    return stacked(self._shares.source, chosen)

  def of_worker(self, worker: int, step: int) -> Tree:
    """One worker's batch, arrays [size, ...]."""
    rows = self._block(step // _BLOCK)[step % _BLOCK, worker]
    return stacked(self._shares.source, self._shares.rows[worker][rows])


def prefetch(run: Run, step: int) -> Iterator[Tree]:
  """The batches from a step on, read ahead in threads."""
  require('data')
  import grain

  options = grain.ReadOptions(_THREADS, _AHEAD)
  batches = iter(grain.MapDataset.source(Batches(run)).to_iter_dataset(options))
  batches.set_state({'next_index': step})
  return batches


def feed(run: Run, examples: Tree) -> Callable[[int, int], Tree]:
  """Returns (worker, step) -> the examples of its gradient, in virtual time."""
  if not isinstance(run.task.train, Shares):
    return lambda worker, step: examples
  return Batches(run).of_worker
