"""Applies the result of an exchange some steps after the exchange started.

The workers go on computing while the exchange is in flight. Changes in flight
are part of the state, hence of checkpoints.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax.aggregator import Aggregator, State, Tree
from gossipjax.errors import UserError
from gossipjax.transforms.late import Late, late


class DelayedState(NamedTuple):
  inner: State  # Of the aggregator.
  in_flight: tuple[Tree, ...]  # Each like the tree; the oldest first.


def delayed(aggregator: Aggregator, steps: int) -> Aggregator:
  """Adds the change by each exchange to the parameters `steps` steps later.

    y_i(t) = x_i(t) + sum of d_i(s), t - steps <= s < t
    d_i(t) = A(y(t))_i - y_i(t),    x_i(t) <- x_i(t) + d_i(t - steps)

  For parameters. An exchange starts from y: the parameters plus all changes
  still in flight. Starting from x would apply the corrections in flight a
  second time; with a mean at every step, training would then diverge for delays
  of 2 steps or more. If the aggregator conserves the sum over workers, the sum
  of parameters and of changes in flight is conserved. Local progress made
  during an exchange is kept. With the mean at every step this is delayed
  gradient averaging (Zhu et al., 2021).

  Args:
    aggregator: its exchange starts at once; it needs every worker.
    steps: between start and end of an exchange; 0 returns `aggregator`.

  Raises:
    UserError: `steps` is negative.
  """

  def exchange(tree, memory, step):
    inner, in_flight = memory
    start = _sum(tree, *in_flight)
    result, inner, sent = aggregator.update(start, inner, step)
    change = jax.tree.map(jnp.subtract, result, start)
    return change, (inner, (*in_flight[1:], change)), sent

  return _later(
    aggregator,
    steps,
    Late(
      steps,
      depart=lambda tree, own, step: tree,
      exchange=exchange,
      arrive=lambda tree, own, change, step: (_sum(tree, change), own),
      split=lambda state: ((), tuple(state), state.in_flight),
      joined=lambda own, memory, in_flight: DelayedState(memory[0], in_flight),
    ),
  )


def stale(aggregator: Aggregator, steps: int) -> Aggregator:
  """Returns the result of the exchange that started `steps` steps ago.

    g_i(t) <- A(g(t - steps))_i

  It returns zeros in the first `steps` steps. For gradients: each is applied,
  but late. For parameters it would discard the local steps taken meanwhile.

  Args:
    aggregator: its exchange starts at once; it needs every worker.
    steps: between start and end of an exchange; 0 returns `aggregator`.

  Raises:
    UserError: `steps` is negative.
  """

  return _later(
    aggregator,
    steps,
    Late(
      steps,
      depart=lambda tree, own, step: tree,
      exchange=aggregator.update,
      arrive=lambda tree, own, arriving, step: (arriving, own),
      split=lambda state: ((), *state),
      joined=lambda own, memory, in_flight: DelayedState(memory, in_flight),
    ),
  )


def _sum(*trees: Tree) -> Tree:
  return jax.tree.map(lambda *each: sum(each[1:], each[0]), *trees)


def _later(aggregator: Aggregator, steps: int, parts: Late) -> Aggregator:
  if steps < 0:
    raise UserError(f'A delay must be at least 0 steps, got {steps}.')
  if steps == 0:
    return aggregator

  def init(tree):
    nothing = jax.tree.map(jnp.zeros_like, tree)
    return DelayedState(aggregator.init(tree), (nothing,) * steps)

  return late(init, parts)
