"""Workers with several devices equal those with one, and send no byte twice."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import executors
from gossipjax.aggregator import identity
from gossipjax.devices import inner_devices
from gossipjax.local_step import make_worker
from gossipjax.traffic import pack_traffic, unpack_traffic
from gossipjax.transforms.shards import by_shards
from tests.laws.audit_test import FEW, of_all
from tests.laws.contract_test import STRATEGIES
from tests.support import laws
from tests.support.tiers import exhaustive

N, DEVICES = 4, 2
# No dimension is divisible by the number of devices.
SHAPES = {'bias': (31,), 'conv': (3, 3, 7, 15), 'dense': (41, 51)}
LIKE = {k: jax.ShapeDtypeStruct(v, jnp.float32) for k, v in SHAPES.items()}
STEPS = (0, 1, laws.COMMON_PERIOD - 1, laws.COMMON_PERIOD)

pytestmark = pytest.mark.usefixtures('compile_quickly')
# A sum, merges of pairs and a server; other strategies are exhaustive.
over_all = pytest.mark.parametrize('name', of_all(FEW))
random = np.random.default_rng(0)
PARAMS = {k: random.standard_normal(v, np.float32) for k, v in SHAPES.items()}
GRADS = [
  {k: random.standard_normal((N, DEVICES, *v), np.float32) for k, v in s}
  for s in [SHAPES.items()] * len(STEPS)
]


def trained(strategy, where, inner):
  """Trains STEPS; returns all workers' models and traffic, [workers, steps]."""
  strategy = inner.exchanging(strategy)
  begin, update = make_worker(strategy, optax.sgd(0.1, momentum=0.9))

  @functools.partial(where.run, donate=(0,))
  def step(worker, grads, t):
    grads, reducing = inner.mean(grads)
    worker, sent = update(worker, grads, t)
    return worker, pack_traffic(sent + reducing)

  same = jax.tree.map(lambda x: np.stack([x] * N), PARAMS)
  init = where.run(lambda params: begin(inner.kept(params)))
  worker, bills = init(where.put_replicated(same)), []
  for t, grads in zip(STEPS, GRADS, strict=True):
    if inner.devices == 1:
      grads = jax.tree.map(lambda x: x.mean(axis=1), grads)
    worker, bill = step(worker, where.put(grads), t=jnp.int32(t))
    bills.append(unpack_traffic(bill, inner.devices))
  sent = jax.tree.map(lambda *each: np.stack(each, axis=1), *bills)
  return jax.device_get(inner.models(worker.params)), sent


@functools.lru_cache(maxsize=2)
def on_one_device(strategy):
  return trained(
    strategy, executors.executor(N, 'vmap'), inner_devices.inner(1, '', LIKE)
  )


def on_several(strategy, kind, executor='shard_map'):
  where = executors.executor(N, executor, DEVICES)
  return trained(strategy, where, inner_devices.inner(DEVICES, kind, LIKE))


def assert_same(found, wanted):
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6),
    found,
    wanted,
  )


@over_all
def test_devices_that_share_a_batch_equal_one_device(name):
  wanted, alone = on_one_device(STRATEGIES[name])
  found, sent = on_several(STRATEGIES[name], '')
  assert_same(found, wanted)
  # Each device sends its part of a message, padded by at most one entry.
  padding = np.asarray(sent.bytes) - alone.bytes
  assert (padding >= 0).all() and (padding <= 8 * sent.messages).all()
  assert (alone.inner == 0).all() and (sent.inner > 0).all()


@over_all
def test_devices_with_shards_equal_one_device_with_sharded_tensors(name):
  strategy = STRATEGIES[name]
  cut = lambda slot: slot if slot == identity() else by_shards(DEVICES, slot)
  by_one = strategy._replace(
    gradients=cut(strategy.gradients), parameters=cut(strategy.parameters)
  )
  wanted, alone = on_one_device(by_one)
  found, sent = on_several(strategy, 'fsdp')
  assert_same(found, wanted)
  if strategy.moments is None:
    for field in ('bytes', 'received', 'messages', 'rounds', 'path_bytes'):
      assert (getattr(sent, field) == getattr(alone, field)).all(), field


@pytest.mark.parametrize('kind', ['', 'fsdp'])
@pytest.mark.parametrize(
  'name', ['all_reduce', exhaustive('gtopk'), exhaustive('push_gossip')]
)
def test_executors_agree(name, kind):
  wanted, bill = on_several(STRATEGIES[name], kind)
  found, sent = on_several(STRATEGIES[name], kind, 'vmap')
  assert_same(found, wanted)
  jax.tree.map(np.testing.assert_array_equal, sent, bill)
