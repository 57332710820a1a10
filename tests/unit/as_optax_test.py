"""An aggregator as a link of a user's optax chain, in a user's loop."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import aggregator as agg
from gossipjax import executors
from gossipjax.collectives import WORKERS
from gossipjax.errors import UserError
from gossipjax.local_step import make_worker
from gossipjax.strategies import all_reduce, gossip, gtopk, local_sgd, topk
from gossipjax.transforms.optax_link import as_optax
from tests.support import laws

pytestmark = pytest.mark.usefixtures('compile_quickly')

N, STEPS, RATE = 4, 5, 0.05
STRATEGIES = {
  'topk': topk.strategy(0.05),
  'all_reduce': all_reduce.strategy(),
  'gtopk': gtopk.strategy(0.05, conserve=True),
}


def batches(step):
  """f32[N, examples, features] and the targets."""
  rng = np.random.default_rng(step)
  return (
    rng.standard_normal((N, 8, 20), np.float32),
    rng.standard_normal((N, 8), np.float32),
  )


def loss(params, x, y):
  return jnp.mean((x @ params['w'] + params['b'] - y) ** 2)


PARAMS = {'b': jnp.float32(0), 'w': jnp.zeros(20)}


def custom_loop(optimizer):
  """A training loop that uses nothing of this package except WORKERS."""
  mesh = jax.make_mesh(
    (N,),
    (WORKERS,),
    devices=jax.devices()[:N],
    axis_types=(jax.sharding.AxisType.Auto,),
  )
  workers = jax.P(WORKERS)

  @jax.jit
  @functools.partial(
    jax.shard_map,
    mesh=mesh,
    in_specs=(workers, workers),
    out_specs=workers,
    check_vma=False,
  )
  def step(carry, batch):
    params, state = jax.tree.map(lambda x: x[0], carry)
    x, y = batch
    grads = jax.grad(loss)(params, x[0], y[0])
    updates, state = optimizer.update(grads, state, params)
    params = optax.apply_updates(params, updates)
    return jax.tree.map(lambda x: x[None], (params, state))

  carry = jax.tree.map(
    lambda x: jnp.stack([x] * N), (PARAMS, optimizer.init(PARAMS))
  )
  for i in range(STEPS):
    carry = step(carry, batches(i))
    yield jax.device_get(carry)


def through_worker(strategy):
  """The same steps through `worker.update`."""
  init, update = make_worker(strategy, optax.sgd(RATE, momentum=0.9))

  def step(worker, x, y, i):
    return update(worker, jax.grad(loss)(worker.params, x, y), i)

  where = executors.executor(N, 'shard_map')
  run = where.run(step)
  worker = where.put(jax.tree.map(lambda x: jnp.stack([x] * N), init(PARAMS)))
  for i in range(STEPS):
    worker, sent = run(worker, *map(where.put, batches(i)), i=jnp.int32(i))
    yield jax.device_get((worker, sent))


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', STRATEGIES)
def test_a_custom_loop_equals_worker_update_bit_by_bit(name):
  optimizer = optax.chain(
    as_optax(STRATEGIES[name].gradients), optax.sgd(RATE, momentum=0.9)
  )
  for (params, (state, _)), (worker, sent) in zip(
    custom_loop(optimizer), through_worker(STRATEGIES[name]), strict=True
  ):
    jax.tree.map(np.testing.assert_array_equal, params, worker.params)
    jax.tree.map(np.testing.assert_array_equal, state.inner, worker.gradients)
    jax.tree.map(np.testing.assert_array_equal, state.sent, sent)
    laws.replicas_are_identical(params)
  assert (np.asarray(state.step) == STEPS).all()
  assert state.sent.bytes[:].min() > 0


def test_the_step_advances_with_each_call():
  optimizer = as_optax(agg.every(2, all_reduce.exact_mean()))
  bytes_sent = [state.sent.bytes.max() for _, state in custom_loop(optimizer)]
  assert [b > 0 for b in bytes_sent] == [False, True, False, True, False]


def test_a_custom_loop_may_be_a_scan():
  optimizer = as_optax(topk.strategy(0.05).gradients)

  def train(grads):
    def step(state, grad):
      updates, state = optimizer.update(grad, state)
      return state, (updates, state.sent)

    return jax.lax.scan(step, optimizer.init(PARAMS), grads)[1]

  grads = jax.tree.map(lambda x: jnp.ones((N, STEPS, *x.shape)), PARAMS)
  updates, sent = jax.vmap(train, axis_name=WORKERS)(grads)
  laws.replicas_are_identical(jax.device_get(updates))
  assert (np.asarray(sent.bytes) == (N - 1) * 8).all()


def test_masks_and_extra_arguments_of_optax_are_supported():
  optimizer = optax.chain(
    as_optax(all_reduce.exact_mean()),
    optax.masked(optax.add_decayed_weights(0.1), {'b': False, 'w': True}),
    optax.scale(-1),
  )

  def once(grads):
    state = optimizer.init(PARAMS)
    return optimizer.update(grads, state, PARAMS, value=jnp.float32(1))[0]

  grads = {'b': jnp.arange(4.0), 'w': jnp.ones((4, 20))}
  updates = jax.vmap(once, axis_name=WORKERS)(grads)
  np.testing.assert_array_equal(updates['b'], [-1.5] * 4)
  np.testing.assert_array_equal(updates['w'], -np.ones((4, 20)))


def test_a_mean_of_parameters_added_as_an_update_splits_replicas():
  # The reason why `as_optax` takes gradients only: a mean of parameters that is
  # added as an update leaves replicas that differ in their last bits.
  mean = local_sgd.strategy(1).parameters

  def as_an_update(params):
    mixed, *_ = mean.update(params, mean.init(params), jnp.int32(0))
    return optax.apply_updates(params, mixed - params)

  params = np.random.default_rng(0).standard_normal((8, 1000), np.float32)
  replicas = jax.vmap(as_an_update, axis_name=WORKERS)(params)
  with pytest.raises(AssertionError):
    laws.replicas_are_identical(replicas)


@pytest.mark.parametrize(
  'given, words',
  [
    (gossip.strategy().gradients, 'never communicates, .*use gj.worker'),
    (topk.strategy(), r'is Strategy; it has to be an Aggregator, such as'),
    ('topk', r"is 'topk'; .* such as gj.topk\(\).gradients"),
  ],
)
def test_anything_but_a_communicating_aggregator_is_refused(given, words):
  with pytest.raises(UserError, match=f'as_optax: the aggregator {words}'):
    as_optax(given)
