"""Whether workers without a bill are really not heard."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

# Of what a worker holds: large enough for bfloat16; for a trigger that a large
# one fires; of the signs.
_FACTORS = (1 - 2**-6, 1 - 2**-12, -1)


def unheard(
  program: Callable[..., Any], args: tuple[Any, ...], silent: np.ndarray
) -> bool:
  """Whether nothing that a silent worker holds reaches another one.

  In a lock-step program the message of a silent worker moves, and its receiver
  ignores it. So the results of all others stay the same, bit by bit, if what
  the silent one holds changes: its parameters, gradients and state.

  Args:
    program: of all workers; `(*args) -> (their next state, Traffic)`.
    args: the state of the workers, then what else they hold, [workers, ...].
    silent: bool[workers], those without a bill.
  """
  before = jax.device_get(program(*args))
  args = jax.device_get(args)
  for worker in map(int, np.flatnonzero(silent)):
    others = np.arange(len(silent)) != worker
    for factor in _FACTORS:
      after, sent = jax.device_get(program(*_changed(args, worker, factor)))
      # If a bill is another, it would talk, and nothing can be said.
      silent_too = _same(before[1], sent, others | True)
      if silent_too and not _same(before[0], after, others):
        return False
  return True


def _changed(tree: Any, worker: int, factor: float) -> Any:
  def changed(x):
    if not jax.dtypes.issubdtype(x.dtype, np.inexact):
      return x
    x, own = np.array(x), x[worker]
    x[worker] = np.where(own == 0, 1 - abs(factor), own * factor).astype(
      x.dtype
    )
    return x

  return jax.tree.map(changed, tree)


def _same(a: Any, b: Any, of: np.ndarray) -> bool:
  """Whether two trees, leaves [workers, ...], have the same bits at `of`."""

  def same(x, y):
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
      x, y = jax.random.key_data(x), jax.random.key_data(y)
    return np.array(x)[of].tobytes() == np.array(y)[of].tobytes()

  return all(map(same, jax.tree.leaves(a), jax.tree.leaves(b)))
