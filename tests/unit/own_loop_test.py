"""Strategies in a user's training loop: any axis, JAX's default checks."""

import functools
import importlib
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import gossipjax as gj
from gossipjax.aggregator import identity
from gossipjax.config import resolve
from gossipjax.errors import UserError
from gossipjax.local_step import make_worker
from gossipjax.strategies import all_reduce
from tests.support import laws
from tests.support.tiers import exhaustive

pytestmark = pytest.mark.usefixtures('compile_quickly')

N, RATE = 4, 0.05
PARAMS = {'b': jnp.zeros(3), 'w': jnp.ones((20, 4))}
MESH = jax.make_mesh(
  (N,),
  ('data',),
  devices=jax.devices()[:N],
  axis_types=(jax.sharding.AxisType.Auto,),
)
ROWS = jax.P('data')
on_mesh = functools.partial(
  jax.shard_map, mesh=MESH, in_specs=ROWS, out_specs=ROWS
)
rows = lambda tree: jax.tree.map(lambda x: jnp.stack([x] * N), tree)
one = lambda tree: jax.tree.map(lambda x: x[0], tree)
back = lambda tree: jax.tree.map(lambda x: x[None], tree)


def gradients(step):
  """A gradient of each worker, leaves [N, ...]."""
  random = np.random.default_rng(step)
  return jax.tree.map(
    lambda x: random.standard_normal((N, *x.shape), np.float32), PARAMS
  )


def of_gradients(name):
  given = {'density': 0.1} if name in ('gtopk', 'dgc', 'topk') else {}
  return resolve.strategy(resolve.strategy_config(name, **given)).gradients


def trained(tx, steps, dtype=jnp.float32):
  """Parameters and optimizer states after some steps, rows per worker."""
  params = jax.tree.map(lambda x: x.astype(dtype), PARAMS)

  @jax.jit
  @on_mesh
  def step(params, state, grads):
    params, state, grads = one((params, state, grads))
    updates, state = tx.update(grads, state, params)
    return back((optax.apply_updates(params, updates), state))

  params, state = rows(params), rows(tx.init(params))
  for i in range(steps):
    grads = jax.tree.map(lambda x: jnp.asarray(x, dtype), gradients(i))
    params, state = step(params, state, grads)
  return jax.device_get((params, state))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'name',
  [
    'all_reduce',
    'topk',
    *map(exhaustive, ('gtopk', 'power_sgd', 'dgc', 'union_topk')),
  ],
)
def test_gradients_are_aggregated_along_an_axis_of_the_user(name):
  aggregator = of_gradients(name)
  tx = optax.chain(gj.as_optax(aggregator, axis='data'), optax.sgd(RATE))
  params, (state, _) = trained(tx, 3)
  laws.replicas_are_identical(params)
  init, update = make_worker(
    gj.Strategy(aggregator, identity()), optax.sgd(RATE)
  )
  worker = jax.vmap(init)(rows(PARAMS))
  total = 0
  for i in range(3):
    worker, sent = jax.vmap(
      lambda w, g, i=i: update(w, g, jnp.int32(i)), axis_name='workers'
    )(worker, gradients(i))
    total = total + np.asarray(sent.bytes)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
    params,
    jax.device_get(worker.params),
  )
  np.testing.assert_array_equal(np.asarray(state.sent_total.bytes), total)


def test_integers_in_a_tree_are_refused():
  tree = {'w': jnp.ones(3), 'count': jnp.int32(0)}
  with pytest.raises(UserError, match='of parameters needs floating'):
    gj.worker(gj.all_reduce(), optax.sgd(RATE)).init(tree)
  with pytest.raises(UserError, match='of gradients needs floating'):
    gj.as_optax(gj.all_reduce().gradients).init(tree)


@pytest.mark.parametrize('what', ['as_optax', 'worker'])
def test_gradients_that_jax_has_summed_are_refused(what):
  """Parameters that do not vary along the axis get P times their gradient."""
  x = np.random.default_rng(0).standard_normal((N, 20), np.float32)
  loss = lambda params, x: (x @ params['w']).mean()
  tx = optax.chain(
    gj.as_optax(of_gradients('all_reduce'), axis='data'), optax.sgd(1.0)
  )
  loop = gj.worker(gj.all_reduce(), optax.sgd(1.0), axis='data')

  def of_worker(varying, params, x):
    params = jax.lax.pcast(params, 'data', to='varying') if varying else params
    grads = jax.grad(loss)(params, x)
    if what == 'worker':
      return back(loop.update(loop.init(params), grads)[0].params)
    updates, _ = tx.update(grads, tx.init(params), params)
    return back(optax.apply_updates(params, updates))

  program = lambda varying: jax.jit(
    jax.shard_map(
      functools.partial(of_worker, varying),
      mesh=MESH,
      in_specs=(jax.P(), ROWS),
      out_specs=ROWS,
    )
  )
  with pytest.raises(UserError, match=f'{what}: the gradients do not vary'):
    program(False)(PARAMS, x)
  found = program(True)(PARAMS, x)['w'][0]
  expected = PARAMS['w'] - jax.grad(loss)(PARAMS, x)['w']
  np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_parameter_may_be_frozen_by_a_gradient_of_0():
  loop = gj.worker(gj.all_reduce(), optax.sgd(0.1), axis='data')

  def of_worker(grads):
    grads = {**one(grads), 'b': jnp.zeros(3)}
    params = jax.lax.pcast(PARAMS, 'data', to='varying')
    return back(loop.update(loop.init(params), grads)[0].params)

  found = jax.jit(on_mesh(of_worker))(gradients(0))
  np.testing.assert_array_equal(found['b'], 0)


def test_a_missing_axis_and_gradients_of_another_tree_are_refused():
  loop = gj.worker(gj.all_reduce(), optax.sgd(0.1), axis='other')
  state = loop.init(PARAMS)
  step = on_mesh(lambda grads: back(loop.update(state, one(grads))[0].params))
  with pytest.raises(UserError, match="there is no axis 'other' here; call it"):
    step(gradients(0))
  few = {'w': jnp.zeros((N, 20, 3))}
  loop = gj.worker(gj.all_reduce(), optax.sgd(0.1), axis='data')
  step = on_mesh(lambda grads: back(loop.update(state, one(grads))[0].params))
  with pytest.raises(UserError, match='gradients and parameters are different'):
    step(few)


@pytest.mark.parametrize('inner', ['data', 'gpus', ('gpus', 'data')])
def test_devices_of_a_worker_need_an_axis_of_their_own(inner):
  tx = gj.as_optax(of_gradients('all_reduce'), axis='data', inner=inner)
  loop = gj.worker(gj.all_reduce(), optax.sgd(0.1), axis='data', inner=inner)
  first = lambda grads: tx.update(grads, tx.init(grads))[0]
  for start in (first, loop.init):
    with pytest.raises(UserError, match='is no axis of this mesh other than'):
      jax.jit(on_mesh(lambda x, f=start: back(f(one(x)))))(gradients(0))


def test_micro_steps_of_optax_undercount_bytes_as_documented():
  """If optax exchanges at the last micro-step only, drop as_optax's caveat."""
  plain = gj.as_optax(all_reduce.exact_mean(), axis='data')
  _, once = trained(plain, 1)
  micro = optax.MultiSteps(plain, 4)
  _, state = trained(micro, 24)
  inner = state.inner_opt_state
  sent, total = (np.asarray(x.bytes) for x in (once.sent, inner.sent_total))
  assert sent[0] > 0
  np.testing.assert_array_equal(total, 6 * sent)
  step = on_mesh(lambda g, s: back(micro.update(one(g), one(s))))
  program = jax.jit(step).lower(gradients(0), rows(micro.init(PARAMS)))
  compiled = program.compile().as_text()  # It exchanges at all 24.
  assert 'all-reduce' in compiled and 'conditional' not in compiled


def test_gradients_in_half_precision_count_as_half_the_bytes():
  plain = gj.as_optax(all_reduce.exact_mean(), axis='data')
  full, half = (
    np.asarray(trained(plain, 1, dtype)[1].sent.bytes)
    for dtype in (jnp.float32, jnp.bfloat16)
  )
  # Each of N shards of a tensor may be padded by an entry of 2 bytes.
  assert full[0] // 2 <= half[0] <= full[0] // 2 + 2 * N


@pytest.mark.exhaustive
def test_a_codec_with_a_memory_sends_values_of_its_own_dtype():
  # 3 other workers get 8 of 83 entries, each with an index of 4 bytes.
  for sent_as, width in (('float32', 4), ('bfloat16', 2)):
    topk = gj.topk(density=0.1, dtype=sent_as).gradients
    for gradient in (jnp.float32, jnp.bfloat16):
      _, state = trained(gj.as_optax(topk, axis='data'), 1, gradient)
      assert (np.asarray(state.sent.bytes) == 3 * 8 * (4 + width)).all()


def looped(strategy, steps):
  """A loop with `gj.worker` inside a jitted shard_map."""
  mine = gj.worker(strategy, optax.adam(RATE), axis='data')

  @jax.jit
  @on_mesh
  def start(params):
    return back(mine.init(one(params)))

  @jax.jit
  @on_mesh
  def step(state, grads):
    state, sent = mine.update(*one((state, grads)))
    return back((state, sent))

  state = start(rows(PARAMS))
  for i in range(steps):
    state, sent = step(state, gradients(i))
  return jax.device_get((state, sent))


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', ['gossip', 'local_sgd', 'diloco', 'topk'])
def test_a_loop_with_a_whole_strategy_agrees_with_make_worker(name):
  strategy = getattr(gj, name)()
  state, sent = looped(strategy, 3)
  init, update = make_worker(strategy, optax.adam(RATE))
  worker = jax.vmap(init)(rows(PARAMS))
  total = 0
  for i in range(3):
    worker, bill = jax.vmap(
      lambda w, g, i=i: update(w, g, jnp.int32(i)), axis_name='workers'
    )(worker, gradients(i))
    total = total + np.asarray(bill.bytes)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
    state.params,
    jax.device_get(worker.params),
  )
  np.testing.assert_array_equal(np.asarray(state.sent_total.bytes), total)
  np.testing.assert_array_equal(np.asarray(sent.bytes), np.asarray(bill.bytes))
  assert (state.step == 3).all()


def test_several_mesh_axes_act_as_one():
  mesh = jax.make_mesh(
    (2, 2),
    ('a', 'b'),
    devices=jax.devices()[:N],
    axis_types=(jax.sharding.AxisType.Auto,) * 2,
  )
  both = jax.P(('a', 'b'))
  tx = gj.as_optax(gj.topk(density=0.1).gradients, axis=('a', 'b'))

  @jax.jit
  @functools.partial(jax.shard_map, mesh=mesh, in_specs=both, out_specs=both)
  def step(grads):
    grads = one(grads)
    return back(tx.update(grads, tx.init(grads))[0])

  single = gj.as_optax(gj.topk(density=0.1).gradients)
  by_hand = jax.vmap(
    lambda g: single.update(g, single.init(g))[0], axis_name='workers'
  )(gradients(0))
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6),
    *jax.device_get((step(gradients(0)), by_hand)),
  )


NODES = jax.make_mesh(
  (N, 2),
  ('node', 'gpu'),
  devices=jax.devices(),
  axis_types=(jax.sharding.AxisType.Auto,) * 2,
)


def by_hand(aggregator, grads):
  """The mean and the traffic of each worker, computed on one device."""
  update = lambda g: aggregator.update(g, aggregator.init(g), jnp.int32(0))
  mean, _, sent = jax.vmap(update, axis_name='workers')(grads)
  return jax.device_get((mean, sent))


@pytest.mark.exhaustive
@pytest.mark.parametrize('manual', [{'node', 'gpu'}, {'node'}])
@pytest.mark.parametrize('name', ['all_reduce', 'topk', 'gtopk', 'power_sgd'])
def test_the_devices_of_a_worker_divide_its_bytes_among_them(name, manual):
  aggregator = of_gradients(name)
  tx = gj.as_optax(aggregator, axis=('node',), inner='gpu')

  @jax.jit
  @functools.partial(
    jax.shard_map,
    mesh=NODES,
    in_specs=jax.P('node'),
    out_specs=jax.P('node'),
    axis_names=manual,
  )
  def step(grads):
    grads = one(grads)
    mean, state = tx.update(grads, tx.init(grads))
    return back((mean, state.sent))

  mean, sent = jax.device_get(step(gradients(0)))
  wanted, one_device = by_hand(aggregator, gradients(0))
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(
      a, b, rtol=1e-6, atol=1e-6 * abs(b).max()
    ),
    mean,
    wanted,
  )
  both = 2 * np.asarray(sent.bytes)  # `sent` is that of one of two devices.
  assert (both >= one_device.bytes).all()
  assert (both <= np.asarray(one_device.bytes) + 16 * sent.messages[0]).all()
  assert (np.asarray(sent.inner) > 0).all()


def test_shards_are_averaged_with_the_same_shard_of_other_workers():
  topk = gj.topk(density=0.1).gradients
  tx = gj.as_optax(topk, axis=('node',))
  rows_and_shards = jax.P('node', 'gpu')

  @jax.jit
  @functools.partial(
    jax.shard_map,
    mesh=NODES,
    in_specs=rows_and_shards,
    out_specs=rows_and_shards,
  )
  def step(grads):
    return tx.update(grads[0], tx.init(grads[0]))[0][None]

  grads = gradients(0)['w']
  found = step(grads)
  for half in (slice(0, 10), slice(10, 20)):
    wanted, _ = by_hand(topk, grads[:, half])
    np.testing.assert_allclose(found[:, half], wanted, rtol=1e-6)


@pytest.mark.parametrize('name', ['gossip', 'diloco'])
def test_a_worker_of_two_devices_trains_like_one_of_one_device(name):
  strategy = getattr(gj, name)()
  mine = gj.worker(strategy, optax.adam(RATE), axis='node', inner='gpu')
  nodes = functools.partial(
    jax.shard_map, mesh=NODES, in_specs=jax.P('node'), out_specs=jax.P('node')
  )
  start = jax.jit(nodes(lambda params: back(mine.init(one(params)))))
  step = jax.jit(nodes(lambda *args: back(mine.update(*one(args))[0])))
  state = start(rows(PARAMS))
  for i in range(3):
    state = step(state, gradients(i))
  wanted, _ = looped(strategy, 3)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7),
    jax.device_get(state.params),
    wanted.params,
  )


def test_nnx_optimizers_take_an_aggregator():
  tx = optax.chain(
    gj.as_optax(gj.topk(density=0.1).gradients, axis='data'), optax.sgd(RATE)
  )
  model = nnx.Linear(5, 2, rngs=nnx.Rngs(0))
  optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
  graph, state = nnx.split((model, optimizer))
  x = np.random.default_rng(0).standard_normal((N, 8, 5), np.float32)

  @jax.jit
  @on_mesh
  def step(state, x):
    model, optimizer = nnx.merge(graph, one(state))
    grads = nnx.grad(lambda m: jnp.mean(m(x[0]) ** 2))(model)
    optimizer.update(model, grads)
    return back(nnx.state((model, optimizer)))

  before, state = rows(state), step(rows(state), x)
  kernels = [np.asarray(s[0]['kernel'][...]) for s in (before, state)]
  assert (kernels[0] != kernels[1]).any()
  laws.replicas_are_identical({'kernel': kernels[1]})


@pytest.mark.parametrize(
  'strategy, tx, words',
  [
    (
      'gossip',
      optax.sgd(RATE),
      "strategy is 'gossip'; .* such as gj.topk",
    ),
    (gj.gossip, optax.sgd(RATE), 'strategy is function'),
    (gj.gossip(), 'sgd', "optimizer is 'sgd'; it has to be a Gradient"),
  ],
)
def test_a_worker_refuses_names_and_functions_as_arguments(strategy, tx, words):
  with pytest.raises(gj.UserError, match=f'worker: the {words}'):
    gj.worker(strategy, tx)


@pytest.mark.parametrize('name', resolve.STRATEGIES)
def test_the_help_of_a_strategy_describes_it_and_its_arguments(name):
  module = importlib.import_module(f'gossipjax.strategies.{name}')
  text = getattr(gj, name).__doc__
  assert text.startswith(module.__doc__.split('\n')[0])
  for argument in inspect.signature(getattr(gj, name)).parameters:
    assert re.search(rf'\n  .*\b{argument}\b.*: ', text), argument
