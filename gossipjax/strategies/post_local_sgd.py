"""Post-local SGD: all-reduce at first, local SGD from some step on.

  g_i <- 1/P sum_j g_j    at every step before `switch`
  x_i <- 1/P sum_j x_j    from then on, at multiples of `period` steps

The momentum of the optimizer is kept at the switch. With switch = 0 it is local
SGD; with a switch after the last step it is all-reduce.

Lin et al., Don't use large mini-batches, use local SGD, 2020. arXiv:1808.07217.
The default of `switch` is ours.
"""

import jax.numpy as jnp
from jax import lax

from gossipjax.aggregator import Aggregator, Strategy, every, identity
from gossipjax.errors import UserError
from gossipjax.strategies.all_reduce import exact_mean


def switched(switch: int, before: Aggregator, after: Aggregator) -> Aggregator:
  """One aggregator before step `switch`, another one from then on."""

  def init(tree):
    return before.init(tree), after.init(tree)

  def update(tree, states, step, active=True):
    first, second = states

    def run_before():
      out, state, sent = before.update(tree, first, step, active)
      return out, (state, second), sent

    def run_after():
      out, state, sent = after.update(tree, second, step, active)
      return out, (first, state), sent

    return lax.cond(jnp.asarray(step) < switch, run_before, run_after)

  return Aggregator(init, update)


def strategy(switch: int = 100, period: int = 16) -> Strategy:
  """Args:
  switch: steps of the first phase, at least 0.
  period: local steps between two averages of the second phase, at least 1.
  """
  if switch < 0:
    raise UserError(f'switch must be at least 0 steps, got {switch}.')
  return Strategy(
    switched(switch, exact_mean(), identity()),
    switched(switch, identity(), every(period, exact_mean())),
  )
