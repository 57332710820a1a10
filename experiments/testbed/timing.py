"""Seconds of exchanges on a real link, measured by all processes at once.

    python -m experiments.testbed.timing HOST:PORT PROCESSES PROCESS SPEC OUT

SPEC is JSON, a list of {"what", "numbers", "arguments"}: a strategy, or one of
MOVES, on a float32 gradient of so many numbers. OUT gets a list of `Timing`s.
"""

import json
import pathlib
import statistics
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from experiments.framework import gloo
from gossipjax import collectives, executors
from gossipjax.advice.isolated_worker import alone
from gossipjax.aggregator import Aggregator, chain, stateless
from gossipjax.config import resolve
from gossipjax.network import Link
from gossipjax.profiling import stage_times
from gossipjax.profiling.interleaved_timing import median_seconds

TURNS = 5
ROWS = 1000  # Layers are matrices, which some strategies need.


class Timing(NamedTuple):
  """Of one exchange; the slowest process counts.

  Attributes:
    seconds: of the whole exchange, from a common start; median of TURNS.
    local_s: of the same exchange when each process receives its own messages:
      all but communication.
    selection_s: the part of local_s that finds the entries to send, by JAX's
      profiler.
    bytes, rounds, path_bytes: of `Traffic`, the largest over workers.
  """

  what: str
  numbers: int
  seconds: float
  local_s: float
  selection_s: float
  bytes: int
  rounds: int
  path_bytes: int

  def link_s(self, link: Link) -> float:
    """What the model says that communication takes."""
    return self.rounds * link.latency_s + self.path_bytes / link.bytes_per_s


def _around() -> list[tuple[int, int]]:
  n = jax.lax.axis_size(collectives.WORKERS)
  return [(i, (i + 1) % n) for i in range(n)]


MOVES = {
  'ppermute': lambda x: collectives.send(x, _around())[::2],
  'all_reduce': lambda x: collectives.all_reduce(x)[::2],
  'all_gather': lambda x: collectives.all_gather(x)[::2],
}


def aggregator(what: str, arguments: dict[str, Any]) -> Aggregator:
  """Both slots of a strategy, one of which communicates; or one collective."""
  if what in MOVES:
    return stateless(lambda tree, step, active: MOVES[what](tree))
  strategy = resolve.strategy(resolve.strategy_config(what, **arguments))
  return chain(strategy.gradients, strategy.parameters)


def measure(what: str, numbers: int, arguments: dict[str, Any]) -> Timing:
  """Times one exchange; every process calls this at the same time."""
  executor, method = (
    executors.executor(jax.process_count()),
    aggregator(what, arguments),
  )
  make_tree = lambda seed: {
    'layer': jax.random.normal(
      jax.random.key(seed), (max(1, numbers // ROWS), min(numbers, ROWS))
    )
  }
  tree = executor.run(make_tree)(
    executor.put(np.arange(1) + jax.process_index())
  )
  state = executor.run(method.init)(tree)
  update = lambda tree, state, step: method.update(tree, state, step)
  step = jnp.int32(0)
  program = executor.run(update).lower(tree, state, step=step).compile()
  together = lambda: program(tree, state, step=step)
  traffic = jax.tree.map(
    np.asarray, executors.gather(executors.to_host(together()[2]))
  )
  own = jax.tree.map(lambda x: x.addressable_shards[0].data[0], (tree, state))
  echoed = jax.jit(alone(update, jax.process_count()))
  seconds = median_seconds(
    {'together': together, 'alone': lambda: echoed(*own, step)},
    TURNS,
    before=multihost_utils.sync_global_devices,  # From a common start.
  )
  return Timing(
    what,
    numbers,
    *_slowest(*seconds.values(), _selection_s(program, together)),
    *(
      int(np.asarray(getattr(traffic, name)).max())
      for name in ('bytes', 'rounds', 'path_bytes')
    ),
  )


def _selection_s(program: Any, call: Callable[[], Any]) -> float:
  """Seconds of those instructions of the program that select entries."""
  stages = stage_times.describe(program, call).stages
  names = {name for name, stage in stages.items() if stage == 'select'}
  if not names:
    return 0.0
  return statistics.median(
    sum(stage_times.trace(call, names).seconds.values()) for _ in range(TURNS)
  )


def _slowest(*figures: float) -> list[float]:
  """The largest of all processes' figures."""
  return executors.gather(np.array([figures])).max(axis=0).tolist()


def main(
  address: str, processes: str, process: str, spec: str, out: str
) -> None:
  """One of the processes."""
  gloo.join(address, processes, process)
  found = [measure(**exchange)._asdict() for exchange in json.loads(spec)]
  if process == '0':
    pathlib.Path(out).write_text(json.dumps(found))


if __name__ == '__main__':
  main(*sys.argv[1:])
