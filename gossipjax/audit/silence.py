"""Whether workers without a bill are really not heard.

In a lock-step program the message of a silent worker moves, and its receiver
ignores it. So the results of all others stay the same, bit by bit, if what the
silent one holds changes: its parameters, gradients and state.
"""

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

Program = Callable[..., Any]  # (*args) -> (next state of the workers, Traffic)

# Of what a worker holds: large enough for bfloat16; for a trigger that a large
# one fires; of the signs.
_FACTORS = (1 - 2**-6, 1 - 2**-12, -1)
# A factor of floats, and whether integers grow by one: what counts or selects.
_CHANGES = (*((factor, False) for factor in _FACTORS), (1, True))


def unheard(
  program: Program, args: tuple[Any, ...], silent: np.ndarray
) -> bool:
  """Whether no change of one of the silent workers reaches another worker.

  Args:
    program: of all workers. Where it branches, it does so in the same way for
      all arguments, or workers would wait for each other.
    args: the state of the workers, then what else they hold, [workers, ...].
    silent: bool[workers], those without a bill.
  """
  one = np.eye(len(silent), dtype=bool)[silent]
  return not _heard(program, args, itertools.product(one, _CHANGES))


def sometimes_heard(
  program: Program, args: tuple[Any, ...], silent: np.ndarray, step: int
) -> bool:
  """As `not unheard(...)` at the price of two runs: half of the silent workers
  change at once, which ones and how is drawn for each step."""
  draw = np.random.default_rng(step)
  some = silent & draw.permutation(np.arange(len(silent)) % 2).astype(bool)
  by = draw.choice(_FACTORS), draw.random() < 0.5
  return bool(some.any()) and _heard(program, args, [(some, by)])


def _heard(
  program: Program,
  args: tuple[Any, ...],
  changes: Iterable[tuple[np.ndarray, tuple[float, bool]]],
) -> bool:
  """Whether one of these changes of some workers, bool[workers], reaches the
  others."""
  args = jax.device_get(args)
  before, bill = jax.device_get(program(*args))
  for some, by in changes:
    changed = jax.tree.map(functools.partial(_changed, some, *by), args)
    after, sent = jax.device_get(program(*changed))
    # If a bill is another, they would talk, and nothing can be said.
    if _same(bill, sent) and not _same(before, after, ~some):
      return True
  return False


def _changed(some: np.ndarray, factor: float, count: bool, x: Any) -> Any:
  if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
    return x
  x = np.array(x)
  own = x[some]
  if jax.dtypes.issubdtype(x.dtype, np.inexact):
    x[some] = np.where(own == 0, 1 - abs(factor), own * factor).astype(x.dtype)
  elif count:
    x[some] = ~own if x.dtype == bool else own + x.dtype.type(1)
  return x


def _same(a: Any, b: Any, of: Any = slice(None)) -> bool:
  """Whether two trees, leaves [workers, ...], have the same bits at `of`."""

  def same(x, y):
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
      x, y = jax.random.key_data(x), jax.random.key_data(y)
    return np.array(x)[of].tobytes() == np.array(y)[of].tobytes()

  return all(map(same, jax.tree.leaves(a), jax.tree.leaves(b)))
