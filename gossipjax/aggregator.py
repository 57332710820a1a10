"""The types Aggregator and Strategy: a distributed, approximate mean."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from gossipjax import collectives
from gossipjax.compressors.quantised import needs_floats
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
  """

  init: Callable[[Tree], State]
  update: Callable[..., tuple[Tree, State, Traffic]]
  late: Any = None
  parts: Any = None


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
    tree, sent = update(tree, step, active)
    return tree, state, sent

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


class AsOptaxState(NamedTuple):
  inner: State  # The aggregator's memory.
  step: jax.Array  # i32[]; calls so far.
  sent: Traffic  # Of the last call.
  sent_total: Traffic  # Of all calls.


def as_optax(
  aggregator: Aggregator,
  axis: collectives.Axis = collectives.WORKERS,
  inner: collectives.Axis | None = None,
) -> optax.GradientTransformationExtraArgs:
  """Wraps a gradient aggregator as a transformation for `optax.chain`.

  It is called once per worker under an axis name, for example inside
  `jax.shard_map`, and its results vary along that axis: parameters and
  optimizer states have a row per worker. `state.sent` is the Traffic of the
  last call, `state.sent_total` of all calls, also inside `optax.MultiSteps`.
  Gradients that travel whole are billed at their own width, such as 2 bytes for
  bfloat16. Compressors with error feedback convert gradients to float32: a
  residual in bfloat16 would round away the small values that it has to keep.
  `gj.topk(dtype='bfloat16')` rounds the values that travel. Do not use it for
  parameter aggregators: a mean of parameters that is added as an update leaves
  replicas that differ in their last bits; `gj.worker` takes those.

  Args:
    aggregator: of gradients. Its period counts calls.
    axis: the name of the workers' axis, or names of several.
    inner: the axis of the devices of a worker, if they all have the worker's
      gradient: they share its sending, and each bill is that of a device. Where
      each has a shard of it instead, leave this out and make their axis manual
      in `jax.shard_map` too: then a shard meets the same shard of others only.
  """

  def begin(params):
    needs_floats(params, 'A tree of gradients', jnp.inexact)
    memory = aggregator.init(params)
    return AsOptaxState(memory, jnp.int32(0), SILENCE, SILENCE)

  def update(updates, state, params=None, **extra):
    del params, extra
    exchange = collectives.along(axis, aggregator.update, inner)
    updates, memory, sent = exchange(updates, state.inner, state.step)
    total = state.sent_total + sent
    return updates, AsOptaxState(memory, state.step + 1, sent, total)

  return optax.GradientTransformationExtraArgs(
    collectives.along(axis, begin, inner), update
  )
