"""Bytes that one of several processes sends, by ledger and by interface.

python -m tests.support.interface_bytes HOST:PORT PROCESS FOLDER INTERFACE \
        STRATEGY ...
"""

import dataclasses
import pathlib
import pickle
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gossipjax import executors, topology
from gossipjax.aggregator import Aggregator, Strategy, identity
from gossipjax.distributed import interface_counters
from gossipjax.local_step import make_worker
from gossipjax.strategies import (
  all_reduce,
  elastic,
  gossip,
  gtopk,
  hylo,
  power_sgd,
  topk,
)
from gossipjax.traffic import Count

WORKERS, STEPS = 4, 6
SHAPE = (1024, 1024)


def liar() -> Strategy:
  """An all-reduce that bills half of the bytes that it sends."""
  honest = all_reduce.exact_mean()

  def update(*args):
    tree, state, sent = honest.update(*args)
    claimed = Count(sent.bytes.low // 2, sent.bytes.high // 2)
    return tree, state, dataclasses.replace(sent, bytes=claimed)

  return Strategy(Aggregator(honest.init, update), identity())


STRATEGIES = {
  'all_reduce': all_reduce.strategy(),
  'gossip': gossip.strategy(topology=topology.exponential),
  'topk': topk.strategy(density=0.05),
  'gtopk': gtopk.strategy(density=0.05),
  'power_sgd': power_sgd.strategy(rank=16),
  'hylo': hylo.strategy(),
  'elastic': elastic.strategy(),
  'liar': liar(),
}


def run(strategy: Strategy, meter: interface_counters.Meter):
  """All workers' parameters after STEPS, and bytes sent, by the ledger and by
  the interface: f32[4, ...], i64[4], i64[4]."""
  init, update = make_worker(strategy, optax.sgd(0.1))
  where = executors.executor(WORKERS, 'shard_map')
  step, rng = where.run(update), np.random.default_rng(0)
  draw = lambda: where.put(
    {
      'dense': rng.standard_normal((WORKERS, *SHAPE), np.float32)[
        where.local_workers
      ]
    }
  )
  worker, grads, total = where.run(init)(draw()), draw(), 0
  for t in range(STEPS + 1):
    if t == 1:  # Step 0 compiles, and opens connections.
      meter.start()
    worker, cost = step(worker, grads, step=jnp.int32(t))
    jax.block_until_ready(worker)
    total += np.asarray(executors.to_host(cost.bytes)) if t else 0
  left = meter.stop()
  return (
    executors.gather(executors.to_host(worker.params)),
    executors.gather(total),
    left,
  )


def main(address, process, folder, interface, *names) -> None:
  jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  jax.config.update('jax_disable_most_optimizations', True)
  jax.distributed.initialize(address, WORKERS, int(process))
  found = {
    name: run(STRATEGIES[name], interface_counters.Meter(interface))
    for name in names
  }
  if process == '0':
    (pathlib.Path(folder) / 'found').write_bytes(pickle.dumps(found))


if __name__ == '__main__':
  main(*sys.argv[1:])
