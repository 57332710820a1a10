"""Costs of a step: seconds of one worker, and traffic over a whole cycle."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import executors
from gossipjax.advice import periods, step_cost, step_traffic
from gossipjax.advice.isolated_worker import alone
from gossipjax.aggregator import Strategy, identity
from gossipjax.collectives import WORKERS
from gossipjax.config import defaults, resolve
from gossipjax.local_step import make_worker
from tests.support.tiers import exhaustive

PARAMS = {'w': jnp.linspace(-1, 1, 60).reshape(6, 10), 'b': jnp.ones(4)}
GRADS = jax.tree.map(jnp.cos, PARAMS)
pytestmark = pytest.mark.usefixtures('compile_quickly')


def strategy(name: str) -> Strategy:
  """A strategy at its defaults, but denser, as there are few parameters."""
  settings = resolve.strategy_config(name)
  if 'density' in settings:
    settings.density = 0.2
  return resolve.strategy(settings)


@pytest.mark.parametrize(
  'name',
  [
    'all_reduce',
    'gossip',
    exhaustive('gtopk'),
    'ef_sign',
    'power_sgd',
    'local_sgd',
  ],
)
def test_an_isolated_worker_computes_as_among_identical_ones(name):
  init, update = make_worker(strategy(name), optax.sgd(0.1))
  worker, step = init(PARAMS), jnp.int32(7)
  many = lambda tree: jax.tree.map(lambda x: jnp.stack([x] * 4), tree)
  together, theirs = executors.on_one_device(lambda w, g: update(w, g, step))(
    many(worker), many(GRADS)
  )
  program = alone(update, 4)
  assert WORKERS not in str(jax.make_jaxpr(program)(worker, GRADS, step))
  mine, sent = jax.jit(program)(worker, GRADS, step)
  for a, b in zip(
    jax.tree.leaves(mine.params), jax.tree.leaves(together.params), strict=True
  ):
    np.testing.assert_allclose(a, b[0], rtol=1e-5, atol=1e-6)
  assert int(sent.bytes) == theirs.bytes[0]


@pytest.mark.parametrize('name', ['union_topk', 'ok_topk'])
def test_an_isolated_worker_keeps_the_shapes_of_a_sharded_server(name):
  init, update = make_worker(strategy(name), optax.sgd(0.1))
  worker, step = init(PARAMS), jnp.int32(0)
  program = alone(update, 4)
  assert WORKERS not in str(jax.make_jaxpr(program)(worker, GRADS, step))
  mine, _ = jax.eval_shape(program, worker, GRADS, step)
  assert jax.tree.map(jnp.shape, mine) == jax.tree.map(jnp.shape, worker)


def test_a_step_is_measured_if_the_memory_depends_on_the_rank():
  config = defaults.get_config('hierarchical')
  shapes = jax.eval_shape(lambda: PARAMS)
  optimizer_s, cost = step_cost.of(config, shapes, workers=4, turns=1)
  assert optimizer_s > 0
  assert np.asarray(cost.traffic.sent.bytes).min() > 0


def test_bills_computed_from_shapes_equal_those_of_a_run():
  shapes = jax.eval_shape(lambda: PARAMS)
  for name, steps in (('gtopk', 1), ('local_sgd', 9)):
    bill = step_traffic.per_step(strategy(name), shapes, 4, range(steps))
    assert bill.exact
    init, update = make_worker(strategy(name), optax.sgd(0.1))
    many = lambda tree: jax.tree.map(lambda x: jnp.stack([x] * 4), tree)
    worker = many(init(PARAMS))
    run = executors.on_one_device(lambda w, g, t: update(w, g, t))
    for t in range(steps):
      worker, sent = run(worker, many(GRADS), t=jnp.int32(t))
      assert (np.asarray(sent.bytes) == bill.sent.bytes[:, t]).all()
      assert (np.asarray(sent.path_bytes) == bill.sent.path_bytes[:, t]).all()


def test_a_bill_that_depends_on_gradients_is_marked_as_inexact():
  shapes = jax.ShapeDtypeStruct((2**17,), jnp.float32)
  bill = step_traffic.per_step(strategy('adaptive_gossip'), shapes, 2, range(1))
  assert not bill.exact and np.asarray(bill.sent.bytes).min() > 0


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', ['union_topk', 'ok_topk'])
def test_rounds_estimated_from_a_sample_are_those_of_all_buckets(name):
  settings = resolve.strategy_config(name)
  settings.granularity = {'name': 'layer'}
  of = lambda sample: step_traffic.of_cycle(settings, LAYERS, 4, sample)[1].sent
  scaled, measured = of(step_traffic.SAMPLE), of(None)
  for key in ('rounds', 'messages'):
    mine, theirs = (np.asarray(getattr(x, key)) for x in (scaled, measured))
    assert mine.max() == pytest.approx(theirs.max(), rel=0.25), key


def test_a_step_is_measured_if_a_trigger_uses_the_learning_rate():
  config = defaults.get_config('adaptive_gossip')
  config.strategy.trigger = {'name': 'step_size'}
  shapes = jax.eval_shape(lambda: PARAMS)
  assert step_cost.of(config, shapes, workers=4, turns=1)[0] > 0


LAYERS = {f'layer{i}': {'kernel': PARAMS['w']} for i in range(4)}


def of_cycle(settings, field: str = 'bytes') -> np.ndarray:
  """By step of a cycle, the most that one of four workers sends."""
  _, found = step_traffic.of_cycle(settings, LAYERS, 4)
  return np.asarray(getattr(found.sent, field)).max(axis=0)


def test_a_mean_is_taken_over_whole_periods_of_all_levels():
  config = resolve.strategy_config
  each = of_cycle(config('all_reduce')).mean()
  assert of_cycle(config('local_sgd', period=9)).mean() == pytest.approx(
    each / 9
  )
  outer = {'name': 'local_sgd', 'period': 4}
  levels = config('hierarchical', period=8, outer=outer)
  between = of_cycle(levels) - of_cycle(levels, 'local')
  assert np.flatnonzero(between).tolist() == [31]
  assert periods.cycle(config('des_loc')) == 1536
  long = config('des_loc', period=255)
  assert periods.cycle(long) == periods.MAX_STEPS


def test_a_mean_is_taken_over_a_period_after_the_first():
  settings = resolve.strategy_config('streaming_diloco', period=20)
  three = step_traffic.per_step(
    resolve.strategy(settings), LAYERS, 4, range(60)
  )
  by_period = np.asarray(three.sent.bytes)[0].reshape(3, 20).sum(axis=1)
  assert of_cycle(settings).sum() == by_period[1] == by_period[2] > by_period[0]


def test_one_time_steps_are_weighted_by_their_share_of_a_training():
  settings = resolve.strategy_config('post_local_sgd', switch=30, period=4)
  each = of_cycle(resolve.strategy_config('all_reduce')).mean()
  assert of_cycle(settings).mean() == pytest.approx(each / 4)
  assert mean_bytes(settings, 130) == pytest.approx(each * (30 + 25) / 130)
  assert mean_bytes(settings, 20) == pytest.approx(each)


def mean_bytes(settings, training: int) -> float:
  """Bytes of the busiest of four workers, mean over a training's steps."""
  _, found = step_traffic.of_cycle(settings, LAYERS, 4, training=training)
  assert found.shares.sum() == pytest.approx(1)
  return found.shares @ np.asarray(found.sent.bytes).max(axis=0)


@pytest.mark.parametrize(
  'make, moments',
  [
    (optax.adam, 2),
    (functools.partial(optax.sgd, momentum=0.9), 1),
    (optax.sgd, 0),
  ],
)
def test_the_moments_of_a_custom_optimizer_are_billed(make, moments):
  settings = resolve.strategy_config(
    'des_loc', period=2, first_period=3, second_period=4
  )
  _, found = step_traffic.of_cycle(settings, LAYERS, 4, optimizer=make(0.1))
  sent = np.asarray(found.sent.bytes).max(axis=0).mean()
  each = of_cycle(resolve.strategy_config('all_reduce')).mean()
  periods_of = [2, 3, 4][: 1 + moments]
  assert sent == pytest.approx(each * sum(1 / k for k in periods_of))


@pytest.mark.parametrize('switch', [4000, exhaustive(8192)])
def test_one_time_steps_keep_their_share_in_a_long_training(switch):
  settings = resolve.strategy_config('post_local_sgd', switch=switch)
  each = of_cycle(resolve.strategy_config('all_reduce')).mean()
  exchanges = switch + (40_000 - switch) / 16
  assert mean_bytes(settings, 40_000) == pytest.approx(
    each * exchanges / 40_000
  )


def test_a_sample_of_one_time_steps_has_their_share_of_exchanges():
  outer = {'name': 'post_local_sgd', 'switch': 1024, 'period': 4}
  settings = resolve.strategy_config('hierarchical', period=8, outer=outer)
  assert periods.beginning(settings) == 8192 == 2 * periods.MAX_STEPS
  steps, shares = periods.sample(settings, 8192)
  drawn = steps[shares > 0]
  assert (np.diff(drawn) > 0).all() and drawn[-1] < 8192
  assert np.mean(drawn % 8 == 7) == pytest.approx(1 / 8, rel=0.1)


def test_seconds_of_one_time_steps_are_weighted_by_their_share(
  monkeypatch,
):
  config = defaults.get_config()
  config.strategy = resolve.strategy_config(
    'post_local_sgd', switch=40, period=4
  )
  config.steps = 400
  nothing = Strategy(identity(), identity())

  def seconds(strategy, local, params, workers, step):
    if strategy == nothing:
      return 1.0
    return 6.0 if step < 40 else 3.0 if step % 4 == 3 else 0.5

  monkeypatch.setattr(step_cost, '_update', seconds)
  monkeypatch.setattr(step_cost, 'median_seconds', lambda calls, turns: calls)
  plain, cost = step_cost.of(config, LAYERS, 4)
  assert plain == 1.0
  assert cost.select_s == pytest.approx(0.1 * 5 + 0.9 * 2 / 4)


def test_a_warm_up_is_not_part_of_the_cycle_that_follows():
  warm = {'name': 'dgc', 'steps': 5}
  settings = resolve.strategy_config('dgc', density=0.001, warmup=warm)
  assert periods.beginning(settings) == 20
  unset = {'name': 'dgc', 'steps': 5, 'densities': None}  # From a command line.
  assert periods.beginning({'name': 'dgc', 'warmup': unset}) == 20
  trigger = {'name': 'norm_slope', 'warmup': 30}
  assert periods.beginning({'name': 'x', 'trigger': trigger}) == 30
  later = resolve.strategy_config('dgc', density=0.001)
  np.testing.assert_array_equal(of_cycle(settings), of_cycle(later))
