"""SlowMo: a slow momentum on top of local SGD.

  u <- b u + (s - 1/P sum_i x_i) / rate,    s <- s - a rate u,    x_i <- s

every `period` steps, where s are the parameters from which all workers last
started, and rate is the inner learning rate; in between, parameters are
averaged every `local_period` steps, too. At a constant rate it is DiLoCo with
heavy-ball momentum; under a schedule its momentum is rescaled with the rate.
With a = 1 and b = 0 it is local SGD.

Wang et al., SlowMo: improving communication-efficient distributed SGD with slow
momentum, 2020. arXiv:1910.00643; constants are those of fairscale.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from gossipjax.aggregator import Strategy, Tree, chain, every, identity
from gossipjax.errors import UserError
from gossipjax.strategies.all_reduce import exact_mean
from gossipjax.transforms.outer import outer_step

NOT_CONSERVED = {'parameters': 'The slow momentum moves the center further.'}


class SlowState(NamedTuple):
  momentum: Tree  # u.
  outer_steps: jax.Array  # i32[]


def slow_momentum(
  stepsize: float, momentum: float, rate: optax.Schedule, period: int
) -> optax.GradientTransformation:
  """The outer optimizer; `rate` is read at the last inner step of a period."""

  def init(params):
    return SlowState(jax.tree.map(jnp.zeros_like, params), jnp.int32(0))

  def update(progress, state, params=None):
    del params
    now = rate((state.outer_steps + 1) * period - 1)
    # The rate may be 0 here: then u stays, and s moves by a times the progress.
    moves, rated = now > 0, jnp.where(now > 0, now, 1.0)
    moved = jax.tree.map(
      lambda u, d: jnp.where(moves, momentum * u + d / rated, u).astype(
        u.dtype
      ),
      state.momentum,
      progress,
    )
    updates = jax.tree.map(
      lambda u, d: -stepsize * jnp.where(moves, now * u, d), moved, progress
    )
    return updates, SlowState(moved, state.outer_steps + 1)

  return optax.GradientTransformation(init, update)


def strategy(
  period: int = 48,
  local_period: int = 3,
  stepsize: float = 1.0,
  momentum: float = 0.5,
  rate: optax.Schedule | None = None,
) -> Strategy:
  """Args:
  period: local steps between two slow steps, at least 1.
  local_period: local steps between two plain averages; it divides `period`.
  stepsize, momentum: a > 0, and b from 0 to below 1, of the slow steps.
  rate: learning rate of the inner optimizer by step; None is a constant rate.
    A run passes the schedule of `config.optimizer`.
  """
  if not (stepsize > 0 and 0 <= momentum < 1):
    raise UserError(
      f'slowmo takes stepsize > 0 and momentum from 0 to below 1, '
      f'got {stepsize} and {momentum}.'
    )
  if local_period < 1 or period % local_period:
    raise UserError(
      f'local_period must divide period={period}, got {local_period}.'
    )
  rate = rate or optax.constant_schedule(1.0)
  # Where a slow step is due, parameters have just been averaged.
  slow = outer_step(slow_momentum(stepsize, momentum, rate, period), identity())
  both = chain(every(local_period, exact_mean()), every(period, slow))
  return Strategy(identity(), both)
