"""Triggers that do not look: what an adaptive one has to beat."""

from collections.abc import Callable

import jax

from gossipjax.errors import UserError
from gossipjax.triggers.trigger import Trigger, at_least


def fixed(period: int = 12) -> Trigger:
  """At the end of each `period` steps; 12 or 13 are 92 % less traffic."""
  at_least(1, period=period)
  return _blind(lambda step, who: step % period == period - 1)


def random(rate: float = 0.08, seed: int = 0) -> Trigger:
  """With probability `rate` at each step; 0.08 is 92 % less traffic.

  Args:
    rate: exchanges per step.
    seed: the same for all workers; each has coins of its own unless all decide
      as one.
  """
  if not 0 <= rate <= 1:
    raise UserError(f'rate is a probability, 0 to 1, got {rate}.')
  key = jax.random.key(seed)
  return _blind(
    lambda step, who: jax.random.bernoulli(
      jax.random.fold_in(jax.random.fold_in(key, who), step), rate
    )
  )


def _blind(wants: Callable[..., jax.Array]) -> Trigger:
  return Trigger(
    init=lambda part: (),
    update=lambda part, memory, step, who: (wants(step, who), memory),
    settle=lambda part, memory, reset: memory,
    shared=True,
  )
