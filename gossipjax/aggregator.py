"""The one abstraction: an aggregator is a distributed, approximate mean."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from gossipjax.errors import UserError
from gossipjax.traffic import SILENCE, Traffic

Tree = Any  # A pytree of arrays, one worker's view.
State = Any


class Aggregator(NamedTuple):
  """A pair of pure functions that brings the workers' trees closer together.

  Both run once per worker, under the axis name `collectives.WORKERS`.

  Attributes:
    init: `tree -> state`, the worker's memory; `()` if it has none.
    update: `(tree, state, step, active=True) -> (tree, state, sent)`. `step`
      is i32[] and the same everywhere. A worker with `active` False gets its
      own tree back and sends nothing; a literal True promises that all are
      there. Keeps the tree's shapes and dtypes.
  """

  init: Callable[[Tree], State]
  update: Callable[..., tuple[Tree, State, Traffic]]


class AsyncExchange(NamedTuple):
  """How a worker exchanges that does not wait for all: a round few came to.

  Attributes:
    parameters: over an axis of those who came; the one whose step it is comes
      first. A field `center` of its state is a server's, one for all.
    way: how they come together, see async_exchange.py.
    draw: `(worker, generator) -> others`, with whom; itself means nobody.
  """

  parameters: Aggregator
  way: str
  draw: Callable[[int, np.random.Generator], Sequence[int]]


class Strategy(NamedTuple):
  """What workers agree on: gradients before the optimizer, parameters after.

  `async_exchange` is the strategy for so many workers that do not wait for
  each other;
  None if it needs all of them at once.
  """

  gradients: Aggregator
  parameters: Aggregator
  async_exchange: Callable[[int], AsyncExchange] | None = None


def stateless(update: Callable[..., tuple[Tree, Traffic]]) -> Aggregator:
  """Lifts `(tree, step, active) -> (tree, sent)` to an aggregator."""

  def stateless_update(tree, state, step, active=True):
    tree, sent = update(tree, step, active)
    return tree, state, sent

  return Aggregator(lambda tree: (), stateless_update)


def identity() -> Aggregator:
  """Every worker keeps its own tree."""
  return stateless(lambda tree, step, active: (tree, SILENCE))


def every(period: int, aggregator: Aggregator) -> Aggregator:
  """Runs `aggregator` at the end of each `period` steps."""
  if period < 1:
    raise UserError(f'period is at least 1 step, got {period}.')
  if period == 1:
    return aggregator

  def update(tree, state, step, active=True):
    # All workers agree on the step, so all take the same branch. A condition
    # on anything local would deadlock here; that is what `active` is for.
    return lax.cond(
      step % period == period - 1,
      lambda: aggregator.update(tree, state, step // period, active),
      lambda: (tree, state, SILENCE),
    )

  return Aggregator(aggregator.init, update)


def chain(*aggregators: Aggregator) -> Aggregator:
  """Runs aggregators one after the other on the same tree."""

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


class AsOptaxState(NamedTuple):
  inner: State  # The aggregator's memory.
  step: jax.Array  # i32[]; calls so far.
  sent: Traffic  # Of the last call.


def as_optax(aggregator: Aggregator) -> optax.GradientTransformationExtraArgs:
  """A gradient aggregator as a link of anyone's `optax.chain`.

  To be called once per worker under the axis name `collectives.WORKERS`, for
  example inside one's own `jax.shard_map`; its bill is `state.sent`. Not for
  parameter aggregators: a mean of parameters written as an update leaves
  replicas that differ in their last bits.
  """

  def init(params):
    return AsOptaxState(aggregator.init(params), jnp.int32(0), SILENCE)

  def update(updates, state, params=None, **extra):
    del params, extra
    updates, inner, sent = aggregator.update(updates, state.inner, state.step)
    return updates, AsOptaxState(inner, state.step + 1, sent)

  return optax.GradientTransformationExtraArgs(init, update)
