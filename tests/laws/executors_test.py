"""A program has the same results in every executor, and never deadlocks."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gossipjax import executors
from gossipjax.collectives import WORKERS
from gossipjax.errors import UserError
from tests.support.tiers import exhaustive

EXECUTORS = ['vmap', 'shard_map', 'pmap']
over_executors = pytest.mark.parametrize('name', EXECUTORS)
EIGHT = 8  # Emulated devices on a CPU; a machine with GPUs may have fewer.


@pytest.fixture
def eight_devices():
  """Skips tests that hold only on eight devices."""
  if (here := len(jax.devices())) < EIGHT:
    pytest.skip(f'needs {EIGHT} devices, and here are {here}')


# The host sends nothing between steps, as that would slow the dispatch down.
# With two threads, the default on two cores, the program could deadlock.
NEVER_WAIT = """
import sys
from gossipjax import executors
workers = int(sys.argv[1])
executors.emulate(workers)
import jax, jax.numpy as jnp, optax
from gossipjax import aggregator as agg
from gossipjax.strategies import all_reduce, gossip
from gossipjax.local_step import make_worker

strategy = agg.Strategy(
    all_reduce.exact_mean(), gossip.strategy().parameters)
init, update = make_worker(strategy, optax.sgd(0.1))
where = executors.executor(workers, 'shard_map')
step = where.run(lambda worker, grads: update(worker, grads, jnp.int32(0))[0])
trees = where.put(
    {k: jnp.ones((workers, n)) for k, n in (('b', 9), ('w', 999))})
worker = where.run(init)(jax.tree.map(jnp.zeros_like, trees))
for _ in range(300):
  worker = step(worker, trees)
assert abs(jax.device_get(worker.params['w']) + 30).max() < 1e-3
"""


@pytest.mark.parametrize('workers', [8, exhaustive(32)])
def test_300_steps_dispatched_without_waiting_do_not_deadlock(workers):
  subprocess.run(
    [sys.executable, '-c', NEVER_WAIT, str(workers)],
    check=True,
    timeout=120,
    # Devices are emulated on the CPU, also if this process has a GPU.
    env=os.environ | {'NPROC': '2', 'JAX_PLATFORMS': 'cpu'},
  )


@over_executors
@pytest.mark.parametrize('workers', [1, 3, 8])
def test_a_program_gets_its_own_row_and_shared_arguments(name, workers):
  where = executors.executor(workers, name)
  run = where.run(
    lambda x, y, *, a, b: (
      x + a,
      {'y': lax.psum(y, WORKERS), 'me': lax.axis_index(WORKERS) * b},
    )
  )
  x = np.arange(2.0 * workers, dtype=np.float32).reshape(workers, 2)
  plus, rest = run(where.put(x), where.put(x), b=jnp.int32(3), a=jnp.float32(1))
  np.testing.assert_array_equal(plus, x + 1)
  np.testing.assert_array_equal(
    rest['y'], np.broadcast_to(x.sum(axis=0), x.shape)
  )
  np.testing.assert_array_equal(rest['me'], 3 * np.arange(workers))


@over_executors
def test_only_donated_arguments_are_deleted(name):
  where = executors.executor(8, name)
  x = where.put(jnp.ones((8, 1000)))
  where.run(lambda x: x + 1, (0,))(x)
  assert x.is_deleted()
  kept = where.put(jnp.ones((8, 1000)))
  where.run(lambda x: x + 1)(kept)
  assert not kept.is_deleted()


@pytest.mark.parametrize('name', ['shard_map', 'pmap'])
def test_every_worker_has_a_device_of_its_own(name):
  x = executors.executor(5, name).put(jnp.zeros((5, 2)))
  rows = {s.device: s.data.shape for s in x.addressable_shards}
  assert rows == dict.fromkeys(jax.devices()[:5], (1, 2))


@pytest.mark.usefixtures('eight_devices')
@pytest.mark.parametrize('name', ['shard_map', 'pmap'])
def test_more_workers_than_devices_are_refused_with_an_alternative(name):
  with pytest.raises(
    UserError, match=f'executor={name}.*workers=9.*devices=8.*executor=vmap'
  ):
    executors.executor(9, name)


def test_any_number_of_workers_runs_on_one_device():
  total = executors.executor(100, 'vmap').run(lambda x: lax.psum(x, WORKERS))
  assert total(jnp.ones(100))[7] == 100


@pytest.mark.usefixtures('eight_devices')
def test_auto_uses_a_device_per_worker_if_there_are_enough():
  assert executors.executor(8).name == 'shard_map'
  assert executors.executor(9).name == 'vmap'


@pytest.mark.parametrize(
  'name, hint',
  [
    ('shardmap', "did you mean 'shard_map'"),
    ('pmpa', "did you mean 'pmap'"),
    ('tpu', 'there are auto, pmap, shard_map, vmap'),
  ],
)
def test_an_unknown_executor_is_refused_with_a_suggestion(name, hint):
  with pytest.raises(UserError, match=f'executor={name} is unknown.*{hint}'):
    executors.executor(8, name)


@pytest.mark.parametrize('workers', [0, -1])
@pytest.mark.parametrize('name', [*EXECUTORS, 'auto'])
def test_less_than_one_worker_is_refused(name, workers):
  with pytest.raises(UserError, match=f'workers.*at least 1.*{workers}'):
    executors.executor(workers, name)
