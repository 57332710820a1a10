"""The process of a server's shard, and the start of every process of a run."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import async_exchange
from gossipjax.engine import peer
from gossipjax.engine.messages import Answer, Entry, on_host
from gossipjax.engine.setup import Setup, of_config

ONE_THREAD = '--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1'


def prepare(config: dict[str, Any]) -> Setup:
  """Sets one CPU thread and makes the setup; before JAX's backend starts.

  Without this every process would take most of a GPU's memory.
  """
  jax.config.update('jax_platforms', 'cpu')
  os.environ['XLA_FLAGS'] = f'{os.environ.get("XLA_FLAGS", "")} {ONE_THREAD}'
  return of_config(config)


def compile_rounds(setup: Setup) -> None:
  """Compiles the programs of all rounds and discards their results."""
  visits, step = setup.exchange.kind == async_exchange.VISIT, np.int32(0)
  draw, rng = setup.exchange.draw, np.random.default_rng(0)
  counts = [len(draw(i, rng)) for i in range(setup.run.workers)]
  held = setup.beginning()
  single, server = held.singles[0], held.server
  mine = [*single.own, *jax.tree.leaves(single.gradient)]
  for attending in range(1, 2 if visits else 2 + max(counts)):
    partition = setup.rounds(attending)
    partition.round_traffic(mine, step)
    back = []
    for k, (responder, message) in enumerate(
      zip(partition.others, partition.request(mine, step), strict=True)
    ):
      leaves = [server[i] for i in setup.shards[k]] if visits else single.own
      back.append(responder.answer(leaves, message, step)[1])
    partition.finish(mine, back, step)
  partition.alone(mine, step)  # The same for any number; donates `mine`.


class ServerProcess:
  """A shard of a server in its process."""

  def __init__(self, config: dict[str, Any], number: int):
    del number
    self._setup = prepare(config)
    self._server: Any = None

  def warm(self) -> None:
    """Compiles all programs."""
    compile_rounds(self._setup)

  def begin(self, leaves: list[np.ndarray]) -> None:
    """Takes over a state."""
    arrays = [jnp.asarray(x) for x in leaves]
    self._server = peer.Server(arrays, self._setup.rounds)

  def answer(self, *given: Any) -> Answer:
    """See `peer.Server.answer`."""
    return self._server.answer(*given)

  def news(self) -> tuple[list[Entry], None]:
    """Returns no entries; the answer shows that the process is alive."""
    return [], None

  def state(self) -> list[np.ndarray]:
    """Its leaves."""
    return on_host(self._server.leaves)
