"""What one of several processes does so that a test can compare it.

    python -m tests.support.together HOST:PORT PROCESSES PROCESS FOLDER

Trains a few steps under every strategy, and tries every collective that they
rely on; the first process writes what came out to FOLDER.
"""

import pathlib
import pickle
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from gossipjax import collectives, executors
from gossipjax.aggregator import Strategy
from gossipjax.local_step import make_worker
from tests.laws.contract_test import STRATEGIES
from tests.support import laws

WORKERS = 4
# Every period ends at the later ones.
STEPS = (0, laws.CENTURY - 1, 2 * laws.CENTURY - 1)


def train(strategy: Strategy):
  """Everybody's parameters and traffic after each of STEPS; in the processes
  that run this together, or on emulated devices."""
  init, update = make_worker(strategy, optax.sgd(0.1, momentum=0.9))
  where = executors.executor(WORKERS, 'shard_map')
  run = where.run(update)
  mine = lambda tree: where.put(jax.tree.map(lambda x: x[where.mine], tree))
  params = laws.start(WORKERS)
  worker = where.run(init)(mine(params))
  for seed, step in enumerate(STEPS):
    worker, sent = run(
      worker, mine(laws.walk(params, seed)), step=jnp.int32(step)
    )
    yield jax.block_until_ready(worker.params), sent


def collective_calls():
  """Name -> a collective of one worker's x, f32[4, 6], and what NumPy has to
  say for all workers' x, f32[4, 4, 6]."""
  axis = collectives.WORKERS
  shift = [(0, 2), (2, 1), (1, 0)]

  def shifted(x):
    out = np.zeros_like(x)
    for source, target in shift:
      out[target] = x[source]
    return out

  every = lambda x: np.stack([x] * WORKERS)
  return {
    'psum': (lambda x: lax.psum(x, axis), lambda x: every(x.sum(0))),
    'pmax': (lambda x: lax.pmax(x, axis), lambda x: every(x.max(0))),
    'ppermute': (lambda x: lax.ppermute(x, axis, shift), shifted),
    'all_gather': (lambda x: lax.all_gather(x, axis), every),
    'all_to_all': (
      lambda x: lax.all_to_all(x, axis, 0, 0, tiled=True),
      lambda x: x.swapaxes(0, 1),
    ),
    'psum_scatter': (
      lambda x: lax.psum_scatter(x, axis, tiled=True),
      lambda x: x.sum(0)[:, None],
    ),
  }


def collective_inputs(dtype: str) -> np.ndarray:
  """Whole numbers, whose sums are exact in every type."""
  x = np.random.default_rng(0).integers(0, 9, (WORKERS, 4, 6))
  return x.astype(dtype)


def called(dtype: str):
  """What each collective gives, {name: [4, ...]}."""
  where = executors.executor(WORKERS, 'shard_map')
  x = where.put(collective_inputs(dtype)[where.mine])
  return {
    name: here(where.run(f)(x)) for name, (f, _) in collective_calls().items()
  }


def here(tree):
  """Everyone's rows, on the host."""
  return executors.gather(executors.rows(tree))


DTYPES = ('float32', 'int32', 'uint8', 'uint32', 'float16')


def main(address: str, processes: str, process: str, folder: str) -> None:
  jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  jax.config.update('jax_disable_most_optimizations', True)
  jax.distributed.initialize(address, int(processes), int(process))
  found = {dtype: called(dtype) for dtype in DTYPES}
  for name, strategy in STRATEGIES.items():
    found[name] = [here(x) for x in train(strategy)]
    if process == '0':
      print(name, flush=True)
  if process == '0':
    (pathlib.Path(folder) / 'found').write_bytes(pickle.dumps(found))


if __name__ == '__main__':
  main(*sys.argv[1:])
