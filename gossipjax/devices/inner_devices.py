"""The devices of a worker: they share its batch, and perhaps its parameters.

Each runs the worker's program on its part of the batch. With data parallelism
all devices of a worker hold equal values and share its sending, see
collectives/sharing.py.
With sharded parameters (FSDP; Zhao et al., 2023, arXiv:2304.11277; ZeRO,
Rajbhandari et al., 2020, arXiv:1910.02054) each holds a shard of parameters,
optimizer and memories, gathers the parameters for the loss, and communicates
only with the devices of other workers that hold the same shard.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax import lax

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, Strategy, Tree, identity
from gossipjax.traffic import SILENCE, Traffic
from gossipjax.transforms import shards

KINDS = ('', 'fsdp')


class Inner(NamedTuple):
  """What the devices of a worker do among themselves.

  All but `models` run once per device.

  Attributes:
    devices: number of devices of each worker.
    kind: '' for data parallelism, 'fsdp' for sharded parameters.
    kept: parameters of a worker -> those that this device keeps.
    whole: those that it keeps -> (parameters of the worker, Traffic).
    mean: gradient of this device's part of the batch -> (the mean gradient of
      the parameters that it keeps, Traffic).
    exchanging: a strategy of workers -> that of their devices.
    models: parameters that devices keep, leaves [workers, devices, ...] ->
      those of the workers, [workers, ...].
  """

  devices: int
  kind: str
  kept: Callable[[Tree], Tree]
  whole: Callable[[Tree], tuple[Tree, Traffic]]
  mean: Callable[[Tree], tuple[Tree, Traffic]]
  exchanging: Callable[[Strategy], Strategy]
  models: Callable[[Tree], Tree]


def inner(devices: int, kind: str, like: Tree) -> Inner:
  """Returns what the devices of a worker do among themselves.

  Args:
    devices: number of devices of each worker.
    kind: one of KINDS.
    like: shapes of the parameters.
  """
  if devices == 1:
    return ALONE
  return _sharded(devices, like) if kind else _replicated(devices)


def _same(tree: Any) -> Any:
  return tree


def _silent(tree: Tree) -> tuple[Tree, Traffic]:
  return tree, SILENCE


ALONE = Inner(1, '', _same, _silent, _silent, _same, _same)


def _replicated(devices: int) -> Inner:
  """All devices of a worker hold equal values."""

  def exchanging(strategy: Strategy) -> Strategy:
    slots: dict[str, Any] = {
      name: _sharing(slot)
      for name, slot in strategy._asdict().items()
      if isinstance(slot, Aggregator)
    }
    return strategy._replace(**slots)

  first = lambda rows: jax.tree.map(lambda x: x[:, 0], rows)
  return Inner(
    devices, '', _same, _silent, collectives.inner_mean, exchanging, first
  )


def _sharing(aggregator: Aggregator) -> Aggregator:
  """Makes the devices of a worker share its sending."""
  if aggregator == identity():
    return aggregator

  def update(*args, **kwargs):
    with collectives.use_axis(collectives.axis(), collectives.INNER):
      return aggregator.update(*args, **kwargs)

  return Aggregator(aggregator.init, update)


def _sharded(devices: int, like: Tree) -> Inner:
  """Each device of a worker holds a shard of the parameters."""

  def kept(params):
    index = lax.axis_index(collectives.INNER)
    return jax.tree.map(lambda x: x[index], shards.cut(params, devices))

  def whole(params):
    rows, sent = collectives.inner_gather(params)
    return shards.joined(rows, like), sent

  def mean(grads):
    return collectives.inner_scatter(shards.cut(grads, devices))

  def exchanging(strategy: Strategy) -> Strategy:
    state = strategy.state and _sharing(strategy.state)
    return strategy._replace(state=state)

  models = jax.vmap(lambda rows: shards.joined(rows, like))
  return Inner(devices, 'fsdp', kept, whole, mean, exchanging, models)
