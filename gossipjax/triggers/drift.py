"""Triggers on the distance from the last exchange, |x - s| / |s|.

Their thresholds are relative to past steps: a fixed threshold would stop all
exchanges when the learning rate drops. Compare Ho, Wu, Liu, 2018, whose rule is
not public.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax.aggregator import Tree, select
from gossipjax.errors import UserError
from gossipjax.norms import distance
from gossipjax.triggers.trigger import LEAST, Trigger, at_least, divisor


class Drift(NamedTuple):
  shared: Tree  # Parameters after the last exchange, s.
  last: Tree  # Parameters after the last step.
  drift_per_step: jax.Array  # f32[]; its running mean.


def relative_drift(scale: float = 6.0, decay: float = 0.9) -> Trigger:
  """Fires if |x - s| / |s| > scale * running mean of this drift in one step.

  The mean starts at zero, so that the first exchanges are more frequent. The
  trigger stores two copies of the parameters.

  Args:
    scale: 0 fires after any change. The published 12.5 steps per exchange need
      sqrt(12.5) if steps are noise and 12.5 if all have the same direction.
    decay: of the running mean, per step.

  Raises:
    UserError: `scale` is below 0, or `decay` not from 0 to below 1.
  """
  at_least(0, scale=scale, decay=decay)
  if decay >= 1:
    raise UserError(f'decay must be below 1, got {decay}.')

  def update(part, memory, step, who):
    size = divisor(memory.shared)
    moved = distance(part, memory.last) / size
    mean = decay * memory.drift_per_step + (1 - decay) * moved
    # No move means no step; a step from zeros has no relative length.
    unknown = (moved == 0) | (size <= LEAST)
    mean = jnp.where(unknown, memory.drift_per_step, mean)
    drift = distance(part, memory.shared) / size
    return drift > scale * mean, memory._replace(drift_per_step=mean)

  def settle(part, memory, reset):
    shared = select(reset, part, memory.shared)
    return Drift(shared, part, memory.drift_per_step)

  return Trigger(lambda part: Drift(part, part, jnp.float32(0)), update, settle)


class Interval(NamedTuple):
  shared: Tree  # Parameters after the last exchange, s.
  threshold: jax.Array  # f32[]; of the relative drift; 0 before the first step.
  since: jax.Array  # i32[]; steps since the last exchange, L.


def target_interval(interval: float = 12.5, kappa: float = 0.5) -> Trigger:
  """Fires if |x - s| / |s| > t; an exchange sets threshold t *= (L* / L)^kappa.

  L is the number of steps since the last exchange. Once it exceeds L* the
  threshold falls, so that an exchange follows. The threshold starts at L* times
  the drift of the first step, which for parameters of zero is not relative. The
  trigger stores one copy of the parameters.

  With scope=local, an exchange that a neighbor starts also resets L. If that
  happens more often than every L* steps, a worker's threshold rises without
  bound and it never starts an exchange: on a ring, every second worker.

  Args:
    interval: L*, the intended steps per exchange; 12.5 saves 92 % of the
      traffic.
    kappa: how fast the threshold adapts; 0 keeps it constant. Exchanges then
      become rarer as the learning rate falls, which scores better at the same
      bytes than a constant rate of exchanges (experiments/adaptive_gossip.py).
  """
  at_least(1, interval=interval)
  at_least(0, kappa=kappa)

  def update(part, memory, step, who):
    since = memory.since + 1
    size = divisor(memory.shared)
    # A layer of zeros has no relative drift, so that its drift is absolute.
    size = jnp.where(size > LEAST, size, 1)
    drift = distance(part, memory.shared) / size
    threshold = jnp.where(
      memory.threshold == 0, interval * drift, memory.threshold
    )
    wants = drift > threshold * jnp.minimum(1, interval / since) ** kappa
    return wants, Interval(memory.shared, threshold, since)

  def settle(part, memory, reset):
    change = (interval / jnp.maximum(memory.since, 1)) ** kappa
    before, after = divisor(memory.shared), divisor(part)
    # The layer is no longer zero: its absolute threshold becomes relative, as
    # no layer would move by that many times its norm.
    unit = jnp.where((before > LEAST) | (after <= LEAST), 1, after)
    renewed = Interval(part, memory.threshold * change / unit, jnp.int32(0))
    return select(reset, renewed, memory)

  init = lambda part: Interval(part, jnp.float32(0), jnp.int32(0))
  return Trigger(init, update, settle)
