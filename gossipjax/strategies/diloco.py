"""DiLoCo: many local steps, then one outer step on what they achieved.

  D = 1/P sum_i (s - x_i),    v <- m v + D,    s <- s - a (D + m v),    x_i <- s

every `period` steps, where s are the parameters from which all workers last
started. The mean progress D is the gradient of an outer SGD with Nesterov
momentum. With a = 1, m = 0 it is local SGD.

Douillard et al., DiLoCo: distributed low-communication training of language
models, 2023. arXiv:2311.08105
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, Strategy, Tree, every, identity
from gossipjax.errors import UserError


class OuterState(NamedTuple):
  start: Tree  # Parameters after the last exchange; the same on every worker.
  outer: optax.OptState  # Of the outer optimizer; the same on every worker.


def outer_step(optimizer: optax.GradientTransformation) -> Aggregator:
  """Passes the workers' mean progress as a gradient to an outer optimizer."""

  def init(tree):
    return OuterState(tree, optimizer.init(tree))

  def update(tree, state, step, active=True):
    del step
    collectives.needs_everyone(active)
    progress = jax.tree.map(jnp.subtract, state.start, tree)
    total, n, sent = collectives.all_reduce(progress)
    mean = jax.tree.map(lambda x: x / n, total)
    updates, outer = optimizer.update(mean, state.outer, state.start)
    start = optax.apply_updates(state.start, updates)
    return start, OuterState(start, outer), sent

  return Aggregator(init, update)


def strategy(
  period: int = 500, stepsize: float = 0.7, momentum: float = 0.9
) -> Strategy:
  """Args:
  period: H, local steps between two exchanges.
  stepsize, momentum: a, m of the outer steps.
  """
  if stepsize <= 0 or not 0 <= momentum < 1:
    raise UserError(
      f'diloco takes stepsize > 0 and momentum from 0 to below 1, '
      f'not {stepsize} and {momentum}.'
    )
  outer = optax.sgd(stepsize, momentum=momentum, nesterov=True)
  return Strategy(identity(), every(period, outer_step(outer)))
