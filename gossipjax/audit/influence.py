"""Tests whether workers without a bill really affect no other worker.

In a lock-step program the message of a silent worker moves, and its receiver
ignores it. So the results and bills of all other workers must stay the same if
the silent worker's parameters, gradients and state change.
"""

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from gossipjax.devices.repeated_arrays import is_key

Program = Callable[..., Any]  # (*args) -> (next state of the workers, Traffic)

# Changes of a worker's floats: one that bfloat16 resolves, one that is too
# small for a trigger to fire, and one of all signs.
_FACTORS = (1 - 2**-6, 1 - 2**-12, -1)
# A factor of floats, and whether integers, which count or select, grow by one.
_CHANGES = (*((factor, False) for factor in _FACTORS), (1, True))


def lacks_influence(
  program: Program, args: tuple[Any, ...], branches: bool, silent: np.ndarray
) -> bool:
  """Whether no change of one of the silent workers reaches another worker.

  Args:
    program: of all workers.
    args: the state of the workers, then their other data, [workers, ...].
    branches: whether the program has conditionals. Integers are not changed
      then: a counter may select the branch, and workers on different branches
      would wait for each other.
    silent: bool[workers], the workers without a bill.
  """
  masks = np.eye(len(silent), dtype=bool)[silent]
  changes = itertools.product(masks, _CHANGES[:-1] if branches else _CHANGES)
  return not _influences(program, args, program(*args), changes)


def shows_influence(
  program: Program,
  args: tuple[Any, ...],
  result: Any,
  silent: np.ndarray,
  step: int,
) -> bool:
  """A cheap `not lacks_influence(...)` for a program without conditionals: in
  one run, half of the silent workers change at once, seeded by the step.

  Args:
    program, args, silent: as those of `lacks_influence`.
    result: what the program returns for them.
    step: of the run.
  """
  draw = np.random.default_rng(step)
  mask = silent & draw.permutation(np.arange(len(silent)) % 2).astype(bool)
  edit = draw.choice(_FACTORS), draw.random() < 0.5
  return bool(mask.any()) and _influences(program, args, result, [(mask, edit)])


def _influences(
  program: Program,
  args: tuple[Any, ...],
  result: Any,
  changes: Iterable[tuple[np.ndarray, tuple[float, bool]]],
) -> bool:
  """Whether one of these changes of some workers, bool[workers], reaches the
  others."""
  args, (before, bill) = jax.device_get((args, result))
  for mask, edit in changes:
    changed = jax.tree.map(functools.partial(_changed, mask, *edit), args)
    after, sent = jax.device_get(program(*changed))
    # If the change makes these workers send, the run shows nothing.
    silent_too = _same(bill, sent, mask)
    if silent_too and not _same((before, bill), (after, sent), ~mask):
      return True
  return False


def _changed(mask: np.ndarray, factor: float, count: bool, x: Any) -> Any:
  if is_key(x):
    return x
  x = np.array(x)
  old = x[mask]
  if jax.dtypes.issubdtype(x.dtype, np.inexact):
    x[mask] = np.where(old == 0, 1 - abs(factor), old * factor).astype(x.dtype)
  elif count:
    x[mask] = ~old if x.dtype == bool else old + x.dtype.type(1)
  return x


def _same(a: Any, b: Any, mask: np.ndarray) -> bool:
  """Whether two trees of [workers, ...] are equal for the workers in `mask`."""

  def same(x, y):
    if is_key(x):
      x, y = jax.random.key_data(x), jax.random.key_data(y)
    x, y = np.array(x)[mask], np.array(y)[mask]
    floats = jax.dtypes.issubdtype(x.dtype, np.inexact)
    return np.array_equal(x, y, equal_nan=floats)

  return all(map(same, jax.tree.leaves(a), jax.tree.leaves(b)))
