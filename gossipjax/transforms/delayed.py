"""Applies an exchange some steps after it was started, as one that overlaps.

The workers go on computing while the exchange is on its way. What is on its way
is part of the state, hence of checkpoints.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax.aggregator import Aggregator, State, Tree
from gossipjax.errors import UserError
from gossipjax.transforms.late import Late, late


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

  change = lambda tree, result: jax.tree.map(jnp.subtract, result, tree)
  add = lambda tree, change: jax.tree.map(jnp.add, tree, change)
  return _later(aggregator, steps, change, add)


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

  return _later(
    aggregator, steps, lambda tree, result: result, lambda tree, result: result
  )


def _later(
  aggregator: Aggregator, steps: int, finish: Callable, apply: Callable
) -> Aggregator:
  """`finish(tree, result)` is what goes on its way, and `apply(tree, that)` the
  tree at its arrival."""
  if steps < 0:
    raise UserError(f'A delay is at least 0 steps, got {steps}.')
  if steps == 0:
    return aggregator

  def init(tree):
    nothing = jax.tree.map(jnp.zeros_like, tree)
    return DelayedState(aggregator.init(tree), (nothing,) * steps)

  def exchange(tree, memory, step):
    result, memory, sent = aggregator.update(tree, memory, step)
    return finish(tree, result), memory, sent

  parts = Late(
    steps,
    depart=lambda tree, own, step: tree,
    exchange=exchange,
    arrive=lambda tree, own, found, step: (apply(tree, found), own),
    split=lambda state: ((), *state),
    joined=lambda own, memory, in_flight: DelayedState(memory, in_flight),
  )
  return late(init, parts)
