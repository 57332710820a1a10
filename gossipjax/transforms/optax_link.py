"""An aggregator of gradients as a link of anyone's optax chain."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, State, identity
from gossipjax.errors import UserError, check_kind
from gossipjax.norms import needs_floats
from gossipjax.traffic import SILENCE, Traffic
from gossipjax.transforms import checked


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
  last call, `state.sent_total` of all. In `optax.MultiSteps` it exchanges at
  every micro-step, but only the last of each k bills is kept: add up the
  gradients before `update`. Uncompressed gradients are billed at their own
  width, such as 2 bytes for bfloat16. Compressors with error feedback convert
  any gradient to float32 before they store or send it, since a residual in
  bfloat16 would round away small values; `gj.topk(dtype='bfloat16')` rounds the
  values that travel. Parameter aggregators are for `gj.worker`: a mean that is
  added as an update leaves replicas that differ in their last bits.

  Args:
    aggregator: of gradients. Its period counts calls.
    axis: the name of the workers' axis, or names of several.
    inner: the axis of a worker's devices, if they all have the worker's whole
      gradient: they share its sending, and each bill is that of one device. If
      each has a shard instead, leave this out and make their axis manual in
      `jax.shard_map` too: shards are then exchanged with the same shard only.

  Raises:
    UserError: `aggregator` is no Aggregator, or one that never communicates.
  """
  _check(aggregator)
  aggregator = checked.of_aggregator('as_optax: the aggregator', aggregator)

  def begin(params):
    needs_floats(params, 'A tree of gradients', jnp.inexact)
    memory = aggregator.init(params)
    return AsOptaxState(memory, jnp.int32(0), SILENCE, SILENCE)

  def update(updates, state, params=None, **extra):
    del params, extra
    collectives.check_gradients(updates, axis, 'as_optax')
    exchange = collectives.bind_axis(axis, aggregator.update, inner)
    updates, memory, sent = exchange(updates, state.inner, state.step)
    total = state.sent_total + sent
    return updates, AsOptaxState(memory, state.step + 1, sent, total)

  return optax.GradientTransformationExtraArgs(
    collectives.bind_axis(axis, begin, inner), update
  )


def _check(aggregator: Aggregator) -> None:
  check_kind('as_optax: the aggregator', aggregator, Aggregator)
  if aggregator is identity():
    raise UserError(
      'as_optax: the aggregator never communicates, as the gradients of a '
      'strategy that exchanges parameters, such as gj.gossip(); use '
      'gj.worker(strategy, optimizer, axis) for these.'
    )
