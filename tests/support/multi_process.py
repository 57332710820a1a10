"""The program of one of several processes, whose results a test compares.

    python -m tests.support.multi_process HOST:PORT PROCESSES PROCESS FOLDER

Trains a few steps with strategies that together communicate in every way, and
calls every collective that they rely on. The first process writes the results
to FOLDER.
"""

import functools
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
# At least one for each way to communicate; `collectives_of` tells them apart.
TRIED = (
  'adaptive_gossip',
  'all_reduce',
  'diloco',
  'double_squeeze',
  'elastic',
  'gtopk',
  'hierarchical',
  'hylo',
  'ok_topk',
  'pairwise_gossip',
  'power_sgd',
  'push_sum',
  'streaming_diloco',
  'topk',
  'union_topk',
)
MOVE = {
  'all_gather',
  'all_to_all',
  'pmax',
  'ppermute',
  'psum',
  'reduce_scatter',
}
# Every period ends at the last two.
STEPS = (0, laws.COMMON_PERIOD - 1, 2 * laws.COMMON_PERIOD - 1)


@functools.cache
def collectives_of(strategy: Strategy) -> frozenset[tuple[str, bool, bool]]:
  """A strategy's collectives: name, whether in groups, whether in a branch."""
  init, update = _worker(strategy)
  run = executors.executor(WORKERS, 'shard_map').run
  params = laws.start(WORKERS)
  worker = jax.eval_shape(run(init), params)
  program = jax.make_jaxpr(run(update))(worker, params, step=jnp.int32(0))
  return frozenset(_calls(program.jaxpr, False))


def _calls(jaxpr, in_a_branch):
  for equation in jaxpr.eqns:
    name, parameters = equation.primitive.name, equation.params
    if name in MOVE:
      yield name, bool(parameters.get('axis_index_groups')), in_a_branch
    for inner in parameters.values():
      for sub in _sub_jaxprs(inner):
        yield from _calls(sub, in_a_branch or name == 'cond')


def _sub_jaxprs(value):
  """The jaxprs in a parameter of an equation."""
  values = value if isinstance(value, (tuple, list)) else [value]
  for v in values:
    v = getattr(v, 'jaxpr', v)
    if hasattr(v, 'eqns'):
      yield v


def _worker(strategy: Strategy):
  return make_worker(strategy, optax.sgd(0.1, momentum=0.9))


def train(strategy: Strategy):
  """Yields all workers' parameters and traffic after each of STEPS, in the
  processes that run this together, or on emulated devices."""
  init, update = _worker(strategy)
  where = executors.executor(WORKERS, 'shard_map')
  run = where.run(update)
  mine = lambda tree: where.put(
    jax.tree.map(lambda x: x[where.local_workers], tree)
  )
  params = laws.start(WORKERS)
  worker = where.run(init)(mine(params))
  for seed, step in enumerate(STEPS):
    worker, sent = run(
      worker, mine(laws.walk(params, seed)), step=jnp.int32(step)
    )
    yield jax.block_until_ready(worker.params), sent


def collective_calls():
  """Name -> a collective of one worker's x, f32[4, 6], and the same by NumPy of
  all workers' x, f32[4, 4, 6]."""
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
  """The result of each collective, {name: [4, ...]}."""
  where = executors.executor(WORKERS, 'shard_map')
  x = where.put(collective_inputs(dtype)[where.local_workers])
  return {
    name: here(where.run(f)(x)) for name, (f, _) in collective_calls().items()
  }


def here(tree):
  """Gathers all workers' rows on the host."""
  return executors.gather(executors.to_host(tree))


DTYPES = ('float32', 'int32', 'uint8', 'uint32', 'float16')


def main(address: str, processes: str, process: str, folder: str) -> None:
  jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  jax.config.update('jax_disable_most_optimizations', True)
  jax.distributed.initialize(address, int(processes), int(process))
  found = {dtype: called(dtype) for dtype in DTYPES}
  for name in TRIED:
    found[name] = [here(x) for x in train(STRATEGIES[name])]
    if process == '0':
      print(name, flush=True)
  if process == '0':
    (pathlib.Path(folder) / 'found').write_bytes(pickle.dumps(found))


if __name__ == '__main__':
  main(*sys.argv[1:])
