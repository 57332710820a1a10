"""Triggers from papers that specify them completely."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from gossipjax.aggregator import select
from gossipjax.errors import UserError
from gossipjax.norms import distance
from gossipjax.triggers.trigger import Trigger, at_least, divisor


class Slope(NamedTuple):
  sent: jax.Array  # f32[]; norm at the last exchange.
  norm: jax.Array  # f32[]; norm now, before any exchange.
  threshold: jax.Array  # f32[]; of the change of norm.
  slopes: jax.Array  # f32[2]; change of norm per step, last two exchanges.
  since: jax.Array  # i32[]; steps since the last exchange.


def norm_slope(horizon: float = 1.0, warmup: int = 30) -> Trigger:
  """EventGraD: | |x| - |x sent| | >= threshold, layer by layer.

  An exchange sets the threshold to the mean of the last two slopes of the norm;
  every step multiplies it by `horizon`. With a horizon above 1 the threshold
  grows while nothing is sent. If it grows faster than the norm changes, no
  exchange follows. The trigger stores six numbers per layer.

  Ghosh, Aquino, Gupta, EventGraD, 2021. arXiv:2103.07454

  Args:
    horizon: 0 always fires; 1 is the value in the authors' example.
    warmup: steps at the start at which it always fires.
  """
  at_least(0, horizon=horizon, warmup=warmup)

  def init(part):
    now = divisor(part)
    return Slope(
      now, now, jnp.float32(0), jnp.zeros(2, jnp.float32), jnp.int32(0)
    )

  def update(part, memory, step, who):
    now, threshold = divisor(part), memory.threshold * horizon
    wants = (jnp.abs(now - memory.sent) >= threshold) | (step < warmup)
    return wants, memory._replace(
      norm=now, threshold=threshold, since=memory.since + 1
    )

  def settle(part, memory, reset):
    slope = jnp.abs(memory.norm - memory.sent) / jnp.maximum(memory.since, 1)
    slopes = jnp.stack([memory.slopes[1], slope])
    # No slope between two receipts without a step of its own.
    slopes = jnp.where(memory.since > 0, slopes, memory.slopes)
    renewed = Slope(
      memory.norm, memory.norm, slopes.mean(), slopes, jnp.int32(0)
    )
    return select(reset, renewed, memory)

  return Trigger(init, update, settle, per_layer=True)


def step_size(
  learning_rate: float | None = None,
  squared_steps: float = 100.0,
  growth: float = 0.0,
  schedule: optax.Schedule | None = None,
) -> Trigger:
  """SPARQ-SGD: |x - s|^2 > c_t eta_t^2 with c_t = squared_steps (t + 1)^growth.

  The threshold falls with the learning rate, so that exchanges go on after the
  rate drops. The trigger stores one copy of the parameters.

  Singh et al., SPARQ-SGD, 2019. arXiv:1910.14280

  Args:
    learning_rate: eta, a number; None takes the schedule.
    squared_steps: c at the first step; 100 is the squared distance, over eta^2,
      of ten steps with gradients of norm one in one direction.
    growth: exponent of the growth of c with time; 0 is no growth.
    schedule: eta by step. A run passes the schedule of `config.optimizer`.

  Raises:
    UserError: neither a learning rate nor a schedule is given, or a number is
      below 0.
  """
  if learning_rate is None and schedule is None:
    raise UserError('learning_rate of step_size is missing.')
  if learning_rate is not None and not learning_rate > 0:
    raise UserError(f'learning_rate must be above 0, got {learning_rate}.')
  at_least(0, squared_steps=squared_steps, growth=growth)

  def update(part, shared, step, who):
    eta = schedule(step) if learning_rate is None else learning_rate
    c = squared_steps * (step + 1.0) ** growth
    return distance(part, shared) ** 2 > c * eta**2, shared

  settle = lambda part, shared, reset: select(reset, part, shared)
  return Trigger(lambda part: part, update, settle)
