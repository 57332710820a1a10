"""Triggers that ignore the parameters: controls for adaptive ones."""

from collections.abc import Callable

import jax

from gossipjax.errors import UserError
from gossipjax.triggers.trigger import Trigger, at_least


def fixed(period: int = 12) -> Trigger:
  """Fires at the end of each `period` steps; 12 or 13 save 92 % of traffic."""
  at_least(1, period=period)
  return _without_parameters(lambda step, who: step % period == period - 1)


def random(rate: float = 0.08, seed: int = 0) -> Trigger:
  """Fires with probability `rate` at each step.

  With scope=all it saves 1 - rate of the traffic, 92 % at 0.08. With
  scope=local two neighbors talk if one of them fires: it saves (1 - rate)^2,
  85 % at 0.08; to save 92 %, 1 - rate has to be sqrt(0.92), a rate of 0.041.

  Args:
    rate: exchanges per step.
    seed: the same on all workers; each draws numbers of its own unless all
      workers decide together.

  Raises:
    UserError: the rate is not from 0 to 1.
  """
  if not 0 <= rate <= 1:
    raise UserError(f'rate is a probability, 0 to 1, got {rate}.')

  def wants(step, who):
    key = jax.random.key(seed)  # Inside the program, for transforms/groups.py.
    key = jax.random.fold_in(jax.random.fold_in(key, who), step)
    return jax.random.bernoulli(key, rate)

  return _without_parameters(wants)


def _without_parameters(wants: Callable[..., jax.Array]) -> Trigger:
  return Trigger(
    init=lambda part: (),
    update=lambda part, memory, step, who: (wants(step, who), memory),
    settle=lambda part, memory, reset: memory,
    shared=True,
  )
