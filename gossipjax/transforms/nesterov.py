"""Removes Nesterov's look-ahead before an exchange and restores it after."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from gossipjax.aggregator import Aggregator, State, Tree, select
from gossipjax.errors import UserError


class LookAheadState(NamedTuple):
  inner: State  # Of the aggregator.
  ahead: Tree  # Parameters y of this worker after its last round.
  velocity: Tree  # Like the parameters; v of its last step, never exchanged.


def _velocity(momentum: float, state: LookAheadState, tree: Tree) -> Tree:
  """v of the step that led from `state.ahead` to `tree`."""
  moved = optax.tree.sub(tree, state.ahead)
  velocity = jax.tree.map(
    lambda d, v: (d + momentum * v) / (1 + momentum), moved, state.velocity
  )
  # Parameters that did not change mean no step: the velocity stays.
  stepped = functools.reduce(
    jnp.logical_or, [(d != 0).any() for d in jax.tree.leaves(moved)]
  )
  return select(stepped, velocity, state.velocity)


def without_look_ahead(momentum: float, aggregator: Aggregator) -> Aggregator:
  """Exchanges x where the optimizer holds y = x + momentum v.

  An aggregator sees only parameters. The step of `optax.sgd(rate, momentum,
  nesterov=True)` is d = y' - y = (1 + momentum) v' - momentum v, so

    v' = (d + momentum v) / (1 + momentum),    x' = y' - momentum v'

  exactly. An error in v, from a change of the rate or from rounding, shrinks by
  more than half at each step. It must run at every step: write
  `without_look_ahead(m, every(period, a))`, never the reverse. It stores two
  copies of the parameters.

  Args:
    momentum: of the optimizer, from 0 to below 1; 0 returns `aggregator`.
    aggregator: of the parameters without the look-ahead, x.

  Raises:
    UserError: `momentum` is outside its range.
  """
  if not 0 <= momentum < 1:
    raise UserError(
      'look_ahead is the momentum of the optimizer, at least 0 and below 1; '
      f'got {momentum}.'
    )
  if momentum == 0:
    return aggregator

  def init(tree):
    return LookAheadState(
      aggregator.init(tree), tree, jax.tree.map(jnp.zeros_like, tree)
    )

  def update(tree, state, step, active=True):
    velocity = _velocity(momentum, state, tree)
    bare = jax.tree.map(lambda y, v: y - momentum * v, tree, velocity)
    mixed, inner, sent = aggregator.update(bare, state.inner, step, active)
    # Adding a difference: without an exchange the tree stays bit-identical.
    tree = jax.tree.map(lambda y, m, x: y + (m - x), tree, mixed, bare)
    return tree, LookAheadState(inner, tree, velocity), sent

  return Aggregator(init, update, look_ahead=(momentum, aggregator))


def split_look_ahead(aggregator: Aggregator) -> tuple[float, Aggregator]:
  """The arguments of `without_look_ahead`, or momentum 0 and the aggregator.

  For transforms that run the aggregator at some steps only, or beside others
  that change the parameters: they remove the look-ahead once, around all these.
  """
  return aggregator.look_ahead or (0.0, aggregator)
