"""The rounds of a strategy, cut for its processes."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from gossipjax import async_exchange
from gossipjax.collectives import WORKERS
from gossipjax.engine.partition import Partition, partition
from gossipjax.engine.unrolled import unroll
from gossipjax.flatten import LARGE
from gossipjax.local_step import Worker
from gossipjax.simulation.one_worker import attend
from gossipjax.simulation.server_leaves import Layout
from gossipjax.training.worker_program import WorkerProgram


def shards_of(server: Sequence[Any], count: int) -> list[list[int]]:
  """Distributes a server's leaves, the largest first, to the smallest shard.

  Small leaves stay together, because they travel in one vector (flatten.py).

  Returns:
    Indices of leaves, for at most `count` shards, none of them empty.
  """
  sizes = [int(np.prod(x.shape)) for x in server]
  small = [i for i, size in enumerate(sizes) if size < LARGE]
  units = [small, *([i] for i, size in enumerate(sizes) if size >= LARGE)]
  weigh = lambda unit: sum(sizes[i] for i in unit)
  found: list[list[int]] = [[] for _ in range(count)]
  for unit in sorted(units, key=weigh, reverse=True):
    min(found, key=weigh).extend(unit)
  return [sorted(shard) for shard in found if shard]


def rounds_of(
  program: WorkerProgram,
  layout: Layout,
  kind: str,
  like: Worker,
  shards: Sequence[Sequence[int]],
) -> Callable[[int], Partition]:
  """Makes the function that cuts the round of a number of workers.

  A round takes the asker's own leaves and its gradient, then the own leaves of
  each other worker, or those of the server.

  Args:
    program: of each worker.
    layout: which leaves of a worker are a server's.
    kind: of the exchange, see async_exchange.py.
    like: a worker, or its shapes and dtypes.
    shards: indices of the server's leaves in each shard, see `shards_of`.

  Returns:
    Number of attending workers -> the partition of their round.
  """
  leaves = jax.tree.leaves(like)
  own, server = layout.part(leaves, False), layout.part(leaves, True)
  gradient, form = jax.tree.flatten(like.params)
  visits, step = kind == async_exchange.VISIT, jnp.int32(0)
  n, g = len(own), len(gradient)
  of_row = _of_row(attend(program, layout, kind), n, len(server), form)
  order = [i for shard in shards for i in shard] if visits else None
  arguments, collect = _arguments(n, g, order), _collect(n, order)

  # Arguments of which each worker has its own, as in separate_fleet.py.
  differ = [*[True] * n, *[False] * len(server), *[visits] * g, False]
  traced = functools.partial(unroll, of_row, arguments, collect)

  served = [server[i] for i in order or ()]
  silent = traced([*own, *gradient, *served, step], WORKERS, differ, True)
  alone = _alone(silent, n, served)

  @functools.cache
  def of(attending: int) -> Partition:
    shared = [[server[i] for i in shard] for shard in shards]
    others = shared if visits else [own] * (attending - 1)
    inputs = [*own, *gradient, *(x for other in others for x in other), step]
    closed = traced(inputs, WORKERS, differ)
    sizes = [(n + g, n), *((len(other), len(other)) for other in others)]
    return partition(closed, sizes, kind != async_exchange.READ, alone)

  return of


def _alone(silent: ClosedJaxpr, own: int, served: Sequence[Any]):
  """`Partition.alone`, of a round that takes and returns own leaves first.

  It runs in place: new memory for every leaf takes longer than the optimizer.
  """
  run = jax.jit(
    lambda *args: jaxpr_as_fun(silent)(*args)[:own], donate_argnums=range(own)
  )
  # A round that sends nothing does not use the server's leaves.
  zeros = [jnp.zeros(x.shape, x.dtype) for x in served]
  return lambda leaves, step: run(*leaves, *zeros, step)


def _arguments(own: int, pending: int, order: Sequence[int] | None):
  """Makes the function: arguments of a round -> arguments of each worker.

  Args:
    own: number of a worker's own leaves.
    pending: number of leaves of the asker's gradient.
    order: order of the server's leaves in a round; None without a server.
  """

  def arguments(inputs):
    asker, gradient = inputs[:own], inputs[own : own + pending]
    rest, step = inputs[own + pending : -1], inputs[-1]
    if order is not None:
      return [[*asker, *(rest[i] for i in np.argsort(order)), *gradient, step]]
    others = [rest[i : i + own] for i in range(0, len(rest), own)]
    return [[*leaves, *gradient, step] for leaves in (asker, *others)]

  return arguments


def _collect(own: int, order: Sequence[int] | None):
  """Makes the function: results of each worker -> results of the round."""

  def collect(rows):
    results = [x for row in rows for x in row[:own]]
    results += [rows[0][own + i] for i in order or ()]
    return results + [row[-1] for row in rows]

  return collect


def _of_row(program: Callable[..., Any], own: int, served: int, form: Any):
  """Makes a worker's round a function of flat arrays that returns a list."""

  def of_row(*given):
    mine, server = given[:own], given[own : own + served]
    pending = jax.tree.unflatten(form, given[own + served : -1])
    mine, server, bill = program(mine, server, pending, given[-1])
    return [*mine, *server, bill]

  return of_row
