"""Triggers that follow the distance from the last exchange, |x - s| / |s|.

Relative, hence blind to the learning rate: an absolute threshold would silence
the workers when the rate drops. cf. Ho, Wu, Liu, 2018, whose rule is not
public.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax.aggregator import Tree, select
from gossipjax.errors import UserError
from gossipjax.triggers.trigger import Trigger, at_least, distance, norm


class Drift(NamedTuple):
  shared: Tree  # Parameters after the last exchange, s.
  last: Tree  # Parameters after the last step.
  pace: jax.Array  # f32[]; running mean of the relative drift per step.


def relative_drift(scale: float = 6.0, decay: float = 0.9) -> Trigger:
  """|x - s| / |s| > scale * (running mean of the same over one step).

  The mean starts at zero, so that workers talk more often at first. Costs two
  copies of the parameters.

  Args:
    scale: 0 talks after any change. The published 12.5 steps per exchange need
      sqrt(12.5) where steps are noise and 12.5 where they all go one way.
    decay: of the running mean, per step.
  """
  at_least(0, scale=scale, decay=decay)
  if decay >= 1:
    raise UserError(f'decay is below 1, got {decay}.')

  def update(part, memory, step, who):
    size = norm(memory.shared)
    moved = distance(part, memory.last) / size
    pace = jnp.where(  # Who has not moved has not stepped.
      moved == 0, memory.pace, decay * memory.pace + (1 - decay) * moved
    )
    drift = distance(part, memory.shared) / size
    return drift > scale * pace, memory._replace(pace=pace)

  def settle(part, memory, reset):
    return Drift(select(reset, part, memory.shared), part, memory.pace)

  return Trigger(lambda part: Drift(part, part, jnp.float32(0)), update, settle)


class Interval(NamedTuple):
  shared: Tree  # Parameters after the last exchange, s.
  threshold: jax.Array  # f32[]; of the relative drift; 0 before the first step.
  since: jax.Array  # i32[]; steps since the last exchange, L.


def target_interval(interval: float = 12.5, kappa: float = 0.5) -> Trigger:
  """|x - s| / |s| > threshold; an exchange sets threshold *= (L* / L)^kappa.

  In a silence longer than L* the threshold already falls, so that it ends. At
  first it is L* times the first step. Costs one copy of the parameters.

  Args:
    interval: steps per exchange to aim at, L*; 12.5 is 92 % less traffic.
    kappa: how fast the threshold follows; 0 keeps it.
  """
  at_least(1, interval=interval)
  at_least(0, kappa=kappa)

  def update(part, memory, step, who):
    since = memory.since + 1
    drift = distance(part, memory.shared) / norm(memory.shared)
    threshold = jnp.where(
      memory.threshold == 0, interval * drift, memory.threshold
    )
    wants = drift > threshold * jnp.minimum(1, interval / since) ** kappa
    return wants, Interval(memory.shared, threshold, since)

  def settle(part, memory, reset):
    change = (interval / jnp.maximum(memory.since, 1)) ** kappa
    talked = Interval(part, memory.threshold * change, jnp.int32(0))
    return select(reset, talked, memory)

  init = lambda part: Interval(part, jnp.float32(0), jnp.int32(0))
  return Trigger(init, update, settle)
