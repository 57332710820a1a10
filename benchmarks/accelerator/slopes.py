"""Seconds of an operation, without those of starting a program."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

TIMES, TURNS = 10, 7
MOST, ENOUGH_S = 200, 0.02  # Largest number of runs; seconds they should take.
# Otherwise what does not change between runs is computed once before the loop.
IN_THE_LOOP = {'xla_disable_hlo_passes': 'while-loop-invariant-code-motion'}


def repeated(function: Callable, times: int) -> jax.stages.Wrapped:
  """Returns a program that takes a function's arguments, runs it `times` times
  in a loop, and returns its last result.

  The barrier makes each run depend on the last one, and the option keeps the
  runs in the loop; the arguments are not copied.
  """

  def run(*args):
    shapes = jax.eval_shape(function, *args)
    start = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    body = lambda _, last: function(*lax.optimization_barrier((args, last))[0])
    return lax.fori_loop(0, times, body, start)

  return jax.jit(run, compiler_options=IN_THE_LOOP)


def slope(call: Callable[[int], Any], times: int) -> list[float]:
  """Returns the seconds of one run, by turn, without the fixed cost of a call.

  Args:
    call: number of runs -> arrays to wait for.
    times: T; a turn is a call of T and a call of 3 T runs.
  """
  found = []
  for turn in range(TURNS + 1):
    ends = [time.perf_counter()]
    for count in (times, 3 * times):
      jax.block_until_ready(call(count))
      ends.append(time.perf_counter())
    began, between, ended = ends
    if turn:  # The first one compiles.
      found.append((ended - 2 * between + began) / (2 * times))
  return found


def enough(call: Callable[[int], Any]) -> int:
  """Returns how many runs take ENOUGH_S: at least TIMES, at most MOST."""
  jax.block_until_ready(call(TIMES))  # Compiles.
  began = time.perf_counter()
  jax.block_until_ready(call(TIMES))
  run_s = (time.perf_counter() - began) / TIMES
  return min(MOST, max(TIMES, round(ENOUGH_S / run_s)))
