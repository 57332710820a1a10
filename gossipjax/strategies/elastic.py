"""EASGD: workers on springs around a common center.

  x_i <- x_i - b (x_i - c),    c <- c + b sum_i (x_i - c),    b = stiffness / P

Both updates use the old values of x_i and c. The momentum is local: of the
look-ahead parameters y_i = x_i + m v_i (Nesterov), only x_i is exchanged.

Zhang et al., Deep learning with elastic averaging SGD, 2015. arXiv:1412.6651;
stiffness 0.8 and period 1 from Jin et al., 2016. arXiv:1611.04581
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import async_exchange, collectives
from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  Tree,
  every,
  identity,
  select,
)
from gossipjax.errors import UserError
from gossipjax.transforms.nesterov import without_look_ahead


class CenterState(NamedTuple):
  center: Tree  # Like the parameters; the same on every worker.


def elastic_mean(stiffness: float, workers: int | None = None) -> Aggregator:
  """Moves the workers taking part and the center towards each other.

  Args:
    stiffness: b times the number of workers, above 0, at most 1.
    workers: number of workers; None is the size of the axis.
  """
  if not 0 < stiffness <= 1:
    raise UserError(
      f'stiffness must be above 0 and at most 1, got {stiffness}; '
      'beyond 1 the center overshoots.'
    )

  def init(tree):
    return CenterState(center=tree)

  def update(tree, state, step, active=True):
    del step
    b = stiffness / (workers or lax.axis_size(collectives.axis()))
    pull = jax.tree.map(lambda x, c: b * (x - c), tree, state.center)
    total, _, sent = collectives.serve(pull, active)
    pulled = jax.tree.map(jnp.subtract, tree, pull)
    center = jax.tree.map(jnp.add, state.center, total)
    return select(active, pulled, tree), CenterState(center), sent

  return Aggregator(init, update)


def strategy(
  stiffness: float = 0.8, period: int = 1, look_ahead: float = 0.9
) -> Strategy:
  """Args:
  stiffness: b times the number of workers, above 0, at most 1.
  period: local steps between two exchanges, at least 1.
  look_ahead: momentum of the local `optax.sgd(..., nesterov=True)`, whose
    look-ahead is not exchanged; 0 if it has none.
  """

  def exchange(workers=None):
    move = every(period, elastic_mean(stiffness, workers))
    return without_look_ahead(look_ahead, move)

  return Strategy(
    identity(),
    exchange(),
    lambda workers: async_exchange.visits(exchange(workers)),
  )
