"""Which branches a run takes where data decide: no text can tell."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.audit.control_paths import Ways
from gossipjax.audit.harness import Stage, compiled


def witness(
  stage: Stage, program: Callable[..., Any], ways: Ways, *args: Any
) -> Callable[..., Ways]:
  """Returns `(worker, *args) -> ways`: those that this run has taken.

  It is one, unless a branch in a loop goes both ways. The program is run once
  more and tells how it decides, then compiled with these decisions in place.
  """
  if len(ways) == 1:
    return lambda *_: ways
  seen = {}

  def tell(i, index):
    jax.debug.callback(
      lambda value: seen.setdefault(i, set()).add(value.item()), index
    )
    return index

  def repeat(i, index):
    tell(i, index)  # Never runs, but what the index is made from has to stay.
    if len(seen.get(i, ())) != 1:
      return index
    return jnp.asarray(*seen[i], jnp.result_type(index))

  with _decisions(tell):
    telling, _ = compiled(stage, program, *args)

  def testify(worker, *args):
    seen.clear()
    jax.block_until_ready(telling(worker, *args))
    jax.effects_barrier()
    with _decisions(repeat):
      _, left = compiled(stage, program, *args)
    return ways & left or ways

  return testify


@contextlib.contextmanager
def _decisions(make: Callable[[int, jax.Array], jax.Array]) -> Iterator[None]:
  """Within, the i-th branch that is traced goes by `make(i, index)`."""
  number, cond, switch = itertools.count(), lax.cond, lax.switch
  branch = lambda original: (
    lambda index, *args, **kwargs: original(
      make(next(number), index), *args, **kwargs
    )
  )
  lax.cond, lax.switch = branch(cond), branch(switch)
  try:
    yield
  finally:
    lax.cond, lax.switch = cond, switch
