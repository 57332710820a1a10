"""Seconds of an operation, without those of starting a program."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

TIMES, TURNS = 10, 7
MOST, ENOUGH_S = 200, 0.02  # Runs of what is fast, so that it takes that long.


def repeated(function: Callable, times: int) -> Callable:
  """A function's arguments -> what it returns after so many runs.

  Each run depends on the result of the last in a way that no compiler sees
  through: one entry of the first array grows by 1 if the result begins with an
  unlikely number.
  """

  def run(*args):
    like = jax.eval_shape(function, *args)

    def once(_, carry):
      args, last = carry
      first = jax.tree.leaves(last)[0].ravel()[0]
      (array, *others), form = jax.tree.flatten(args)
      array = array.at[0].add((first == 117).astype(array.dtype))
      args = form.unflatten([array, *others])
      return args, function(*args)

    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)
    return lax.fori_loop(0, times, once, (args, nothing))[1]

  return run


def slope(call: Callable[[int], Any], times: int) -> list[float]:
  """Seconds of one run in each turn, whatever a call costs beside its runs.

  Args:
    call: so many runs -> what to wait for.
    times: T; a turn is a call of T and a call of 3 T runs.
  """
  found = []
  for turn in range(TURNS + 1):
    ends = [time.perf_counter()]
    for many in (times, 3 * times):
      jax.block_until_ready(call(many))
      ends.append(time.perf_counter())
    began, between, ended = ends
    if turn:  # The first one compiles.
      found.append((ended - 2 * between + began) / (2 * times))
  return found


def enough(call: Callable[[int], Any]) -> int:
  """Runs, at least TIMES, that take ENOUGH_S."""
  jax.block_until_ready(call(TIMES))  # Compiles.
  began = time.perf_counter()
  jax.block_until_ready(call(TIMES))
  each = (time.perf_counter() - began) / TIMES
  return min(MOST, max(TIMES, round(ENOUGH_S / each)))
