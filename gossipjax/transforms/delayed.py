"""Applies an exchange some steps after it was started, as one that overlaps.

The workers go on computing while the exchange is on its way. What is on its way
is part of the state, hence of checkpoints.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, State, Tree
from gossipjax.errors import UserError


class DelayedState(NamedTuple):
  inner: State  # Of the aggregator.
  in_flight: tuple[Tree, ...]  # Like the tree each; the oldest first.


def delayed(aggregator: Aggregator, steps: int) -> Aggregator:
  """Adds the change that an exchange makes `steps` steps after its start.

    d_i(t) = A(x(t))_i - x_i(t),    x_i(t) <- x_i(t) + d_i(t - steps)

  The tree plus what is on its way is conserved where the aggregator conserves
  the tree. Local progress since the start of an exchange is kept. For
  gradients it makes a worker's own part fresh and that of the others late.

  Args:
    aggregator: its exchange starts at once; it needs every worker.
    steps: between start and end of an exchange; 0 returns `aggregator`.

  Raises:
    UserError: `steps` is negative.
  """

  def finished(tree, result):
    change = jax.tree.map(jnp.subtract, result, tree)
    return change, lambda late: jax.tree.map(jnp.add, tree, late)

  return _later(aggregator, steps, finished)


def stale(aggregator: Aggregator, steps: int) -> Aggregator:
  """Gives the result of the exchange that started `steps` steps ago.

    g_i(t) <- A(g(t - steps))_i

  and zeros in the first steps: for gradients, of which none is lost and all are
  late. Of parameters it would forget the local steps since then.

  Args:
    aggregator: its exchange starts at once; it needs every worker.
    steps: between start and end of an exchange; 0 returns `aggregator`.

  Raises:
    UserError: `steps` is negative.
  """

  def finished(tree, result):
    del tree
    return result, lambda late: late

  return _later(aggregator, steps, finished)


def _later(aggregator: Aggregator, steps: int, finished) -> Aggregator:
  """`finished(tree, result)` says what goes on its way, and what its arrival
  makes of the tree."""
  if steps < 0:
    raise UserError(f'A delay is at least 0 steps, got {steps}.')
  if steps == 0:
    return aggregator

  def init(tree):
    nothing = jax.tree.map(jnp.zeros_like, tree)
    return DelayedState(aggregator.init(tree), (nothing,) * steps)

  def update(tree, state, step, active=True):
    collectives.needs_everyone(active)
    result, inner, sent = aggregator.update(tree, state.inner, step)
    leaves, arrive = finished(tree, result)
    first, *others = state.in_flight
    return arrive(first), DelayedState(inner, (*others, leaves)), sent

  return Aggregator(init, update)
