"""The types Aggregator and Strategy, and functions that combine aggregators."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax.errors import UserError
from gossipjax.traffic import SILENCE, Traffic

Tree = Any  # A pytree of arrays, one worker's view.
State = Any


class Aggregator(NamedTuple):
  """Two pure functions that take a distributed, approximate mean of trees.

  Both run once per worker, under the axis name `collectives.WORKERS`.

  Attributes:
    init: `tree -> state`, the worker's memory; `()` if it has none.
    update: `(tree, state, step, active=True) -> (tree, state, sent)`, with the
      tree's shapes and dtypes kept. `step` is i32[] and the same on all
      workers. `active` is bool[]: a worker where it is False gets its own tree
      back and sends nothing; a literal True states that all workers take part.
      `sent` is the worker's Traffic.
    late: `update` cut into parts, so that its exchange can overlap with later
      steps, see transforms/late.py; None if the result of `update` depends on
      the exchange that it starts.
    parts: how it splits the tree, and the aggregator of each part, see
      transforms/bucketed.py; None if one aggregator takes the whole tree.
    look_ahead: `(momentum, aggregator)` if it removes the Nesterov look-ahead
      of this momentum around `aggregator`, see transforms/nesterov.py; None if
      it removes none.
  """

  init: Callable[[Tree], State]
  update: Callable[..., tuple[Tree, State, Traffic]]
  late: Any = None
  parts: Any = None
  look_ahead: Any = None


class AsyncExchange(NamedTuple):
  """An exchange of a worker that does not wait for all others.

  It is a round in which few workers take part.

  Attributes:
    parameters: aggregator over an axis of only the workers that take part; the
      worker that has just stepped comes first. The fields `center` (like the
      parameters) and `server` of its state are held by a server and shared.
    kind: visit, read, push or meet, see async_exchange.py.
    draw: `(worker, generator) -> others`, the workers to exchange with; a
      worker that draws itself exchanges with nobody.
  """

  parameters: Aggregator
  kind: str
  draw: Callable[[int, np.random.Generator], Sequence[int]]


class Strategy(NamedTuple):
  """What workers communicate, and when.

  Attributes:
    gradients: aggregates gradients before the optimizer's step.
    parameters: aggregates parameters after the optimizer's step.
    async_exchange: `number of workers -> AsyncExchange`, the strategy for
      asynchronous workers; None if it needs all workers at once.
    moments: aggregates the optimizer's state after its step; None: every worker
      keeps its own.
    state: aggregates the model's state besides parameters, such as batch
      statistics; this aggregator has no memory. None: every worker keeps its
      own.
  """

  gradients: Aggregator
  parameters: Aggregator
  async_exchange: Callable[[int], AsyncExchange] | None = None
  moments: Aggregator | None = None
  state: Aggregator | None = None


def stateless(update: Callable[..., tuple[Tree, Traffic]]) -> Aggregator:
  """Makes a function `(tree, step, active) -> (tree, sent)` an aggregator."""

  def stateless_update(tree, state, step, active=True):
    found = update(tree, step, active)
    if not isinstance(found, tuple) or len(found) != 2:
      many = len(found) if isinstance(found, tuple) else type(found).__name__
      raise TypeError(
        'an update given to stateless has to return two values, the tree and '
        f'the Traffic that was sent; it returns {many}'
      )
    return found[0], state, found[1]

  return Aggregator(lambda tree: (), stateless_update)


_IDENTITY = stateless(lambda tree, step, active: (tree, SILENCE))


def identity() -> Aggregator:
  """Every worker keeps its own tree; each call returns the same object."""
  return _IDENTITY


def every(period: int, aggregator: Aggregator) -> Aggregator:
  """Runs `aggregator` at the last of every `period` steps.

  The `step` that `aggregator` receives counts its runs.

  Raises:
    UserError: `period` is below 1.
  """
  if period < 1:
    raise UserError(f'period must be at least 1 step, got {period}.')
  if period == 1:
    return aggregator

  def update(tree, state, step, active=True):
    # All workers have the same step, so all take the same branch. A condition
    # on a worker's own values would deadlock; `active` masks those instead.
    return lax.cond(
      step % period == period - 1,
      lambda: aggregator.update(tree, state, step // period, active),
      lambda: (tree, state, SILENCE),
    )

  return Aggregator(aggregator.init, update)


def chain(*aggregators: Aggregator) -> Aggregator:
  """Runs aggregators in order, each on the result of the one before."""

  def init(tree):
    return tuple(a.init(tree) for a in aggregators)

  def update(tree, states, step, active=True):
    new_states, total = [], SILENCE
    for aggregator, state in zip(aggregators, states, strict=True):
      tree, state, sent = aggregator.update(tree, state, step, active)
      new_states.append(state)
      total += sent
    return tree, tuple(new_states), total

  return Aggregator(init, update)


def select(condition, new: Tree, old: Tree) -> Tree:
  """Returns `new` where `condition` holds and `old` elsewhere, leaf by leaf."""
  if condition is True:
    return new
  return jax.tree.map(lambda n, o: jnp.where(condition, n, o), new, old)
