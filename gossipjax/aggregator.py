"""The types Aggregator and Strategy: a distributed, approximate mean."""

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
  """A pair of pure functions: a distributed, approximate mean of trees.

  Both run once per worker, under the axis name `collectives.WORKERS`.

  Attributes:
    init: `tree -> state`, the worker's memory; `()` if it has none.
    update: `(tree, state, step, active=True) -> (tree, state, sent)`, with the
      tree's shapes and dtypes kept. `step` is i32[] and the same on all
      workers. `active` is bool[]: a worker where it is False gets its own tree
      back and sends nothing; a literal True states that all workers take part.
      `sent` is the worker's Traffic.
    late: the parts of `update`, see transforms/late.py; None if its result
      depends on the exchange that it starts.
    parts: the aggregators of parts of the tree of which it consists, see
      transforms/bucketed.py; None if it is one for all of the tree.
    look_ahead: the momentum whose look-ahead it removes and the aggregator that
      does not, see transforms/nesterov.py; None if it removes none.
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
    parameters: aggregator over an axis of the workers taking part; the worker
      whose step it is comes first. The fields `center`, which is like the
      parameters, and `server` of its state belong to a server and are shared.
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
    gradients: aggregates gradients before the optimizer.
    parameters: aggregates parameters after it.
    async_exchange: `number of workers -> AsyncExchange`, the same strategy for
      workers that do not wait for each other; None if it needs all at once.
    moments: aggregates the optimizer's state after its step; None leaves it
      with its worker.
    state: aggregates what models keep besides parameters, such as batch
      statistics; it has no memory. None: every worker keeps its own.
  """

  gradients: Aggregator
  parameters: Aggregator
  async_exchange: Callable[[int], AsyncExchange] | None = None
  moments: Aggregator | None = None
  state: Aggregator | None = None


def stateless(update: Callable[..., tuple[Tree, Traffic]]) -> Aggregator:
  """Lifts `(tree, step, active) -> (tree, sent)` to an aggregator."""

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
  """Every worker keeps its own tree; always equal to itself."""
  return _IDENTITY


def every(period: int, aggregator: Aggregator) -> Aggregator:
  """Runs `aggregator` at the end of each `period` steps.

  Its own `step` counts those runs.

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
  """Runs aggregators one after the other, each on the last one's result."""

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
