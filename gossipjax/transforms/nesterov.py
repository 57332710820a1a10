"""Nesterov's look-ahead, taken off before an exchange and put back after."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from gossipjax.aggregator import Aggregator, State, Tree, select
from gossipjax.errors import UserError


class LookAheadState(NamedTuple):
  inner: State
  ahead: Tree  # Parameters y as this worker left its last round.
  velocity: Tree  # Like the parameters; v of its last step, never exchanged.


def without_look_ahead(momentum: float, aggregator: Aggregator) -> Aggregator:
  """Exchanges x where the optimizer holds y = x + momentum v.

  An aggregator sees parameters only. The step of `optax.sgd(rate, momentum,
  nesterov=True)` is d = y' - y = (1 + momentum) v' - momentum v, so

    v' = (d + momentum v) / (1 + momentum),    x' = y' - momentum v'

  exactly; an error in v (a change of the rate, rounding) more than halves with
  every step. Must see every step, hence goes around `every`. Costs two copies
  of the parameters per worker.

  Args:
    momentum: of the optimizer, in [0, 1); 0 changes nothing and costs nothing.
    aggregator: of what is left without the look-ahead.
  """
  if not 0 <= momentum < 1:
    raise UserError(f'momentum is at least 0 and below 1, got {momentum}.')
  if momentum == 0:
    return aggregator

  def init(tree):
    return LookAheadState(
      aggregator.init(tree), tree, jax.tree.map(jnp.zeros_like, tree)
    )

  def update(tree, state, step, active=True):
    moved = optax.tree.sub(tree, state.ahead)
    velocity = jax.tree.map(
      lambda d, v: (d + momentum * v) / (1 + momentum), moved, state.velocity
    )
    # Who has not moved has not stepped: absent, and its velocity waits.
    stepped = functools.reduce(
      jnp.logical_or, [(d != 0).any() for d in jax.tree.leaves(moved)]
    )
    velocity = select(stepped, velocity, state.velocity)

    bare = jax.tree.map(lambda y, v: y - momentum * v, tree, velocity)
    mixed, inner, sent = aggregator.update(bare, state.inner, step, active)
    # As a difference, so that no exchange leaves not even rounding behind.
    tree = jax.tree.map(lambda y, m, x: y + (m - x), tree, mixed, bare)
    return tree, LookAheadState(inner, tree, velocity), sent

  return Aggregator(init, update)
