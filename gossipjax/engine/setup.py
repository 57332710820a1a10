"""Makes the functions of a run from its config, the same in every process."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from ml_collections import ConfigDict

from gossipjax.aggregator import AsyncExchange, Tree
from gossipjax.collectives import WORKERS
from gossipjax.engine.dataflow import Arrays
from gossipjax.engine.partition import Partition
from gossipjax.engine.round_partitions import rounds_of, shards_of
from gossipjax.simulation import simulate
from gossipjax.simulation.compute_times import ComputeTimes
from gossipjax.simulation.fleet import Fleet, beginning
from gossipjax.simulation.one_worker import Single, gradient_of
from gossipjax.simulation.separate_fleet import Separate, separate_fleet
from gossipjax.simulation.server_leaves import (
  Layout,
  layout_of,
  without_copies,
)
from gossipjax.training import stream, worker_program
from gossipjax.training.run import Run, resolve_run


class Setup(NamedTuple):
  """The functions of a run on the engine.

  Attributes:
    run: with the strategy of its exchange.
    exchange: how the asynchronous workers exchange.
    layout: which leaves of a worker are a server's.
    fleet: functions over the states of all workers.
    shards: indices of the server's leaves in each shard.
    rounds: number of attending workers -> the partition of their round.
    take: (own leaves, a server's leaves, worker, step) -> (leaves of the
      model's state, gradient, loss).
    times: how long workers compute, and when they are down.
    beginning: the states of all workers before the first step.
    joined: (parameters, model's state) -> own leaves of a worker that begins
      with them.
  """

  run: Run
  exchange: AsyncExchange
  layout: Layout
  fleet: Fleet
  shards: list[list[int]]
  rounds: Callable[[int], Partition]
  take: Callable[..., tuple[Arrays, Any, jax.Array]]
  times: ComputeTimes
  beginning: Callable[[], Separate]
  joined: Callable[[Tree, Tree], Arrays]


def of_config(config: dict[str, Any]) -> Setup:
  """Makes the setup of a config, given as plain values of a ConfigDict."""
  return of_run(resolve_run(ConfigDict(config)))


def of_run(run: Run) -> Setup:
  """Makes the setup of a resolved run."""
  exchange = simulate.exchange_of(run)
  run = simulate.with_exchange(run, exchange)
  program = worker_program.worker_program(run)
  workers, examples = worker_program.start(run, program)
  layout, kind = layout_of(workers, exchange.kind), exchange.kind
  feed = stream.feed(run, examples)
  fleet = separate_fleet(program, feed, layout, kind)
  like = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), workers
  )

  shards = shards_of(
    layout.part(jax.tree.leaves(like), True), run.cluster.shards
  )

  def joined(params: Tree, state: Tree) -> Arrays:
    rows = jax.tree.map(lambda x: np.asarray(x)[None], (params, state))
    begun = jax.vmap(program.init, axis_name=WORKERS)(*rows)
    return layout.part(
      jax.tree.leaves(jax.tree.map(lambda x: x[0], begun)), False
    )

  return Setup(
    run,
    exchange,
    layout,
    fleet,
    shards,
    rounds_of(program, layout, kind, like, shards),
    gradient_of(program, feed, layout),
    ComputeTimes(run.cluster, run.workers, run.seed),
    functools.partial(_beginning, fleet, workers, kind),
    joined,
  )


def _beginning(fleet: Fleet, workers, kind: str) -> Separate:
  return fleet.hold(beginning(without_copies(workers, kind)))


def packed(single: Single) -> list[np.ndarray]:
  """Converts a worker's state to arrays that another process can take."""
  return [np.asarray(x) for x in jax.tree.leaves(single)]


def unpacked(leaves: Sequence[Any], like: Single) -> Single:
  """Restores the state that `packed` converted."""
  return jax.tree.unflatten(jax.tree.structure(like), leaves)
