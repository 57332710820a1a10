"""Strategies within groups of workers, and hierarchies of two levels."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import gossipjax
from gossipjax import compressors, executors, network, topology, triggers
from gossipjax.aggregator import Strategy, identity, stateless
from gossipjax.collectives import WORKERS
from gossipjax.comparison import compare
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.local_step import make_worker
from gossipjax.simulation.simulate import simulate
from gossipjax.strategies import (
  adaptive_gossip,
  all_reduce,
  diloco,
  elastic,
  gradient_tracking,
  hierarchical,
  local_sgd,
  pairwise_gossip,
  post_local_sgd,
  qsgd,
  random_k,
  topk,
)
from gossipjax.traffic import SILENCE
from gossipjax.training import momentum
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train as in_lock_step
from gossipjax.transforms import groups, outer_optimizers, traced
from gossipjax.transforms.nesterov import split_look_ahead
from tests.laws.contract_test import AGGREGATORS, CORE
from tests.support import laws
from tests.support.quadratics import (
  SIZE,
  close,
  gradients,
  run,
  same,
  start,
  train,
)

P, RATE = 4, 0.1
EXECUTORS = ('vmap', 'shard_map')
MOMENTUM = optax.sgd(RATE, 0.9)
NESTEROV = optax.sgd(RATE, 0.9, nesterov=True)
PLAIN = diloco.strategy(1, outer_optimizers.sgd(0.5))
ALL = [name for name in CORE if not name.startswith('hierarchical')]
pytestmark = pytest.mark.usefixtures('compile_quickly')


def one_step(aggregator, workers, executor):
  """Compiles `tree -> one update of all workers`, at a step at which every
  period ends."""
  where = executors.executor(workers, executor)

  @where.run
  def update(tree, step):
    return aggregator.update(tree, aggregator.init(tree), step)

  step = jnp.int32(laws.COMMON_PERIOD - 1)
  return lambda tree: jax.device_get(update(where.put(tree), step=step))


def seeded(aggregator, group, seeds):
  """The aggregator with the random keys that a group uses; adds the seeds that
  it uses to a list."""

  makes_key = lambda equation: equation.primitive.name == 'random_seed'

  def replace(equation, operands, run):
    found = run(operands)
    if not makes_key(equation):
      return found
    seeds.append(equation)
    return [jax.random.fold_in(found[0], group)] if group else found

  rewriting = traced.Rewriting(makes_key, replace)
  update = traced.replaced(aggregator.update, rewriting)
  return aggregator._replace(update=update)


@pytest.mark.exhaustive
@pytest.mark.parametrize('executor', ['vmap', 'shard_map'])
@pytest.mark.parametrize('name', ALL)
def test_a_group_computes_what_it_computes_alone(name, executor):
  aggregator, tree = AGGREGATORS[name], laws.walk(laws.start(8), 0)
  within = groups.among(groups.consecutive_groups(4), aggregator)
  both = one_step(within, 8, executor)(tree)
  for group, alone in enumerate(both_alone(name)):
    found = jax.tree.map(lambda x, g=group: x[members(g)], both)
    jax.tree.map(
      functools.partial(np.testing.assert_allclose, atol=1e-5),
      found[:2],
      alone[:2],
    )
    jax.tree.map(np.testing.assert_array_equal, found[2], alone[2])


def members(group):
  return slice(4 * group, 4 * group + 4)


@functools.lru_cache(1)
def both_alone(name):
  """`one_step` of each of two groups of four by itself, on one device."""
  tree, seeds = laws.walk(laws.start(8), 0), []
  rows = [
    jax.tree.map(lambda x, g=group: x[members(g)], tree) for group in range(2)
  ]
  step = one_step(seeded(AGGREGATORS[name], 0, seeds), 4, 'vmap')
  first = step(rows[0])
  if seeds:  # Without seeds both groups run the same program.
    step = one_step(seeded(AGGREGATORS[name], 1, seeds), 4, 'vmap')
  return first, step(rows[1])


@pytest.mark.parametrize('executor', ['vmap', 'shard_map'])
def test_groups_draw_different_random_numbers(executor):
  aggregator = groups.among(
    groups.consecutive_groups(2), random_k.random_k_mean(0.1, seed=3)
  )
  tree = {'bias': jnp.ones((P, 100))}
  mean, _, _ = one_step(aggregator, P, executor)(tree)
  drawn = [{*np.flatnonzero(row)} for row in mean['bias']]
  assert [len(indices) for indices in drawn] == [10] * P
  assert drawn[0] == drawn[1] and drawn[2] == drawn[3]
  assert drawn[0] != drawn[2]
  of_next_seed = groups.among(
    groups.consecutive_groups(2), random_k.random_k_mean(0.1, seed=4)
  )
  mean, _, _ = one_step(of_next_seed, P, executor)(tree)
  assert drawn[2] != {*np.flatnonzero(mean['bias'][0])}


def test_random_triggers_of_groups_draw_different_numbers():
  triggered = resolve.strategy(
    resolve.strategy_config(
      'adaptive_gossip', trigger={'name': 'random', 'rate': 0.5}
    )
  ).parameters
  pairs = groups.among(groups.consecutive_groups(2), triggered)
  where = executors.executor(P, 'vmap')
  run = where.run(lambda x, s, step: pairs.update(x, s, step))
  tree = where.put({'bias': jnp.ones((P, 3))})
  state = where.run(pairs.init)(tree)
  sends = [
    run(tree, state, step=jnp.int32(t))[2].bytes[::2] > 0 for t in range(12)
  ]
  assert not np.array_equal(*np.array(sends).T[:2])


def test_counterparts_share_a_position_in_their_groups():
  assert groups.consecutive_groups(2)(6) == [[0, 1], [2, 3], [4, 5]]
  assert groups.counterparts(2)(6) == [[0, 2, 4], [1, 3, 5]]
  with pytest.raises(UserError, match='workers=6'):
    groups.consecutive_groups(4)(6)


@pytest.mark.parametrize('executor', ['vmap', 'shard_map'])
def test_hierarchical_sgd_matches_numpy(executor, period=3):
  def by_hand():
    x = np.stack([start()] * P)
    for t in range(12):
      means = gradients(x, t).reshape(2, 2, SIZE).mean(axis=1)
      x = x - RATE * np.repeat(means, 2, axis=0)
      if t % period == period - 1:
        x = np.broadcast_to(x.mean(axis=0), x.shape)
      yield x

  close(train(hierarchical.strategy(2, period), executor=executor), by_hand())


def test_groups_of_one_worker_equal_the_outer_strategy():
  ours = hierarchical.strategy(1, 3, outer=PLAIN)
  theirs = diloco.strategy(3, outer_optimizers.sgd(0.5))
  close(train(ours, MOMENTUM), train(theirs, MOMENTUM))


@pytest.mark.parametrize('size', [1, P])
def test_a_level_treats_look_ahead_as_its_strategy_does_alone(size):
  nothing = Strategy(identity(), identity())
  levels = {'inner': nothing, 'outer': elastic.strategy()}
  if size == P:
    levels = {'inner': elastic.strategy(period=3), 'outer': nothing}
  ours = hierarchical.strategy(size, 3, **levels)
  close(train(ours, NESTEROV), train(elastic.strategy(period=3), NESTEROV))


@pytest.mark.exhaustive
def test_no_level_exchanges_the_look_ahead(mu=0.9, period=3):
  def by_hand():
    x, v = np.stack([start()] * P), 0.0
    for t in range(12):
      v = mu * v - RATE * gradients(x + mu * v, t)
      x = np.repeat((x + v).reshape(2, 2, SIZE).mean(axis=1), 2, axis=0)
      if t % period == period - 1:
        x = np.broadcast_to(x.mean(axis=0), x.shape)
      yield x + mu * v

  pairs = pairwise_gossip.strategy(look_ahead=mu)
  for levels in ((pairs, pairs), (local_sgd.strategy(1), pairs)):
    close(train(hierarchical.strategy(2, period, *levels), NESTEROV), by_hand())
  with pytest.raises(UserError, match=r'look_ahead=0\.9 and 0\.5'):
    hierarchical.strategy(2, 3, pairs, pairwise_gossip.strategy(look_ahead=0.5))


@pytest.mark.parametrize('level', ['inner', 'outer'])
def test_in_python_a_level_has_look_ahead_only_if_given(level):
  """As without levels: a strategy in Python does not see the optimizer."""
  look_ahead_of = lambda part: split_look_ahead(
    gossipjax.hierarchical(**{level: part}).parameters
  )[0]
  assert (
    look_ahead_of('elastic')
    == look_ahead_of({'name': 'elastic', 'stiffness': 0.5})
    == 0
  )
  assert look_ahead_of({'name': 'elastic', 'look_ahead': 0.5}) == 0.5


def test_all_reduce_on_both_levels_is_all_reduce():
  levels = hierarchical.strategy(2, 1, outer=all_reduce.strategy())
  close(train(levels, MOMENTUM), train(all_reduce.strategy(), MOMENTUM))


def test_a_single_group_equals_the_inner_strategy():
  ours = hierarchical.strategy(P, 3, local_sgd.strategy(3))
  close(train(ours, MOMENTUM), train(local_sgd.strategy(3), MOMENTUM))


def test_inner_all_reduce_and_outer_diloco_are_diloco_of_groups():
  ours = train(hierarchical.strategy(2, 3, outer=PLAIN))

  def by_hand():
    x, s = np.stack([start()] * 2), start()
    for t in range(12):
      each = gradients(np.repeat(x, 2, axis=0), t)
      x = x - RATE * each.reshape(2, 2, SIZE).mean(axis=1)
      if t % 3 == 2:
        s = s - 0.5 * (s - x.mean(axis=0))
        x = np.stack([s] * 2)
      yield np.repeat(x, 2, axis=0)

  close(ours, by_hand())


def models_after(strategy, steps=4, workers=8):
  """Models of workers with random gradients, and the last step's traffic."""
  begin, update = make_worker(strategy, optax.sgd(RATE))
  where = executors.executor(workers, 'vmap')
  same = np.linspace(-1, 1, 11, dtype=np.float32)
  worker = where.run(begin)({'x': np.stack([same] * workers)})
  step = where.run(lambda worker, grads, step: update(worker, grads, step))
  rng = np.random.default_rng(0)
  for t in range(steps):
    grads = rng.standard_normal((workers, 11)).astype(np.float32)
    worker, sent = step(worker, {'x': grads}, step=jnp.int32(t))
  return worker.params['x'], sent


@pytest.mark.parametrize(
  'outer', [PLAIN, elastic.strategy(look_ahead=0.0)], ids=['diloco', 'elastic']
)
def test_a_hierarchy_as_outer_strategy_is_one_of_larger_groups(outer):
  """Each holds its own share of the model; all it sends is between groups."""
  mean = local_sgd.strategy(1)
  between = hierarchical.strategy(2, 1, inner=mean, outer=outer)
  nested, sent = models_after(hierarchical.strategy(2, 1, outer=between))
  flat, _ = models_after(hierarchical.strategy(4, 1, outer=outer))
  np.testing.assert_allclose(nested, flat, atol=2e-6)
  _, two_levels = models_after(hierarchical.strategy(2, 1, outer=mean))
  np.testing.assert_array_equal(sent.local, two_levels.local)


def test_a_config_sets_the_outer_strategy_by_name():
  config = resolve.strategy_config('hierarchical', size=2, period=3)
  config.outer.name, config.outer.period = 'diloco', 1
  config.outer.outer.name, config.outer.outer.stepsize = 'sgd', 0.5
  same(
    train(resolve.strategy(config)),
    train(hierarchical.strategy(2, 3, outer=PLAIN)),
  )


def test_a_strategy_that_follows_the_schedule_cannot_be_a_level():
  config = {'name': 'hierarchical', 'outer': {'name': 'slowmo'}}
  with pytest.raises(UserError, match=r'outer\.name=slowmo'):
    resolve.strategy(config)


def test_both_levels_are_billed_separately():
  inner_only, both_levels = [
    (int(sent.bytes[0]), int(sent.local[0]))
    for _, _, sent in run(hierarchical.strategy(2, 2), steps=2)
  ]
  # In a ring of two, each worker sends as many bytes as the tree has.
  inside, share = 4 * SIZE, 4 * SIZE // 2
  assert inner_only == (inside, inside)
  # Between groups a ring of two; inside a reduce-scatter, then a gather.
  assert both_levels == (inside + 3 * share, inside + 2 * share)


@pytest.mark.parametrize('virtual', [False, True])
def test_a_record_has_the_bytes_inside_groups(virtual):
  config = defaults.get_config('hierarchical')
  config.update(workers=P, steps=4, log_every=4, eval_every=0, executor='vmap')
  config.task.width, config.strategy.period = 8, 2
  if virtual:
    config.cluster = defaults.cluster(asynchronous=False)
  *_, last = (simulate if virtual else in_lock_step)(resolve_run(config))
  tree = 4 * ((64 + 1) * 8 + (8 + 1) * 10)  # Bytes of the model.
  # Four rings of two inside a group; twice, shares before and after the
  # exchange between groups, and there a ring of two.
  assert last.bytes_local == [4 * tree + 2 * tree] * P
  assert last.bytes_sent == [4 * tree + 2 * tree + 2 * tree // 2] * P


def test_traffic_inside_groups_takes_the_seconds_of_their_link():
  slow, fast = network.Link(1.0, 10.0), network.Link(0.01, 1000.0)
  bills = [sent for *_, sent in run(hierarchical.strategy(2, 2), steps=2)]
  bill = jax.tree.map(lambda *each: np.stack(each, axis=1), *bills)
  tree, share = 4 * SIZE, 4 * SIZE // 2
  # Every step has a ring of two inside groups: two rounds. The second step also
  # has one of shares between groups; inside, each share is sent once before it
  # and once after it.
  inside, between = 2 * 0.01 + tree / 1000, 2 * 1.0 + share / 10
  np.testing.assert_allclose(
    network.seconds(network.with_group(slow, fast), bill),
    [inside, 2 * inside + between],
  )
  np.testing.assert_allclose(
    network.seconds(slow, bill),
    network.seconds(network.with_group(slow, slow), bill),
  )


def test_with_a_group_link_all_links_must_be_full_duplex():
  slow = network.link(1.0, 10.0, full_duplex=False)
  with pytest.raises(UserError, match='group_link'):
    network.with_group(slow, network.PRESETS['10gbe'])


def test_a_compressor_between_groups_sees_one_share():
  method = hierarchical.strategy(2, 1, outer=topk.strategy(0.25))
  *_, (x, worker, sent) = run(method, steps=3)
  residual = worker.gradients[1].residual
  assert residual.shape == (P, SIZE // 2)
  between = int(sent.bytes[0]) - int(sent.local[0])
  assert between == 8 * SIZE // 2 // 4
  np.testing.assert_array_equal(x, np.broadcast_to(x[:1], x.shape))


def test_exchanging_gradients_between_groups_needs_period_1():
  hierarchical.strategy(2, 1, outer=topk.strategy(0.25))
  for outer in (
    topk.strategy(0.25),
    post_local_sgd.strategy(),
    gradient_tracking.strategy(),
  ):
    with pytest.raises(UserError, match='only every 8 steps never agree'):
      hierarchical.strategy(2, 8, outer=outer)


@pytest.mark.exhaustive
def test_all_groups_draw_the_same_round_of_the_topology():
  """Otherwise devices would wait in a branch that others do not take."""
  always = adaptive_gossip.strategy(
    triggers.fixed(period=1), topology=topology.hypercube
  )
  inside = groups.among(groups.consecutive_groups(4), always.parameters)

  def partner_of_first(step):
    x = {'x': 2.0 ** jnp.tile(jnp.arange(4), 2)[:, None]}
    one = lambda x: inside.update(x, inside.init(x), step)[0]
    found = jax.vmap(one, axis_name=WORKERS)(x)['x'][:, 0]
    return 2 * found[::4] - 1  # In each group the mean is (1 + partner) / 2.

  partners = np.array([partner_of_first(jnp.int32(step)) for step in range(8)])
  assert {*partners[:, 0]} == {2.0, 4.0}
  np.testing.assert_array_equal(partners[:, 0], partners[:, 1])


@pytest.mark.parametrize('slot', ['state', 'moments'])
@pytest.mark.parametrize('level', ['inner', 'outer'])
def test_a_level_that_exchanges_state_or_moments_is_refused(level, slot):
  part = local_sgd.strategy()._replace(**{slot: all_reduce.exact_mean()})
  with pytest.raises(UserError, match='No level of hierarchical can'):
    hierarchical.strategy(2, 1, **{level: part})


def test_momentum_of_a_level_must_agree_with_the_optimizer():
  config = defaults.get_config('hierarchical')
  config.strategy.period = 1
  momentum.check({'name': 'hierarchical', 'outer': 'elastic'}, config.optimizer)
  config.optimizer.nesterov = False
  check = lambda: momentum.check(config.strategy, config.optimizer)
  for level, name, words in (
    ('outer', 'elastic', r'strategy\.outer\.look_ahead=0\.9 of elastic needs'),
    ('inner', 'elastic', r'strategy\.inner\.look_ahead=0\.9 of elastic needs'),
    ('outer', 'dgc', 'strategy dgc has a momentum of its own'),
  ):
    config.strategy[level].name = name
    with pytest.raises(UserError, match=words):
      check()
    momentum.agree(config)
    check()
    config.optimizer.momentum = 0.9
    config.strategy[level].update(name='local_sgd', look_ahead=None)


def test_a_link_within_groups_needs_a_variant_with_groups(tmp_path):
  config = defaults.get_config('gossip')
  config.update(workers=2, steps=1, executor='vmap', group_link='10gbe')
  with pytest.raises(UserError, match='group_link=10gbe is used by no variant'):
    compare.compare(config, tmp_path / 'run')
  assert not (tmp_path / 'run').exists()


def test_moments_are_refused():
  outer = Strategy(identity(), identity(), moments=identity())
  with pytest.raises(UserError, match='moments'):
    hierarchical.strategy(outer=outer)


@pytest.mark.parametrize('level', ['inner', 'outer'])
def test_groups_with_independent_triggers_do_not_deadlock(level):
  """With a device per worker, a collective in a branch waits for all."""
  triggered = adaptive_gossip.strategy(triggers.random(0.5), scope='all')
  strategy = hierarchical.strategy(2, 1, **{level: triggered})
  pairs = zip(
    *(run(strategy, steps=6, executor=e) for e in EXECUTORS), strict=True
  )
  sent = []
  for (mine, _, bill), (theirs, _, other) in pairs:
    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    sent.append(np.asarray(bill.bytes))
    assert (sent[-1] == np.asarray(other.bytes)).all()
  assert any(len({*each.tolist()}) > 1 for each in sent)


def test_levels_draw_different_random_numbers():
  """QSGD at both: with the same numbers the second rounding would be biased."""
  rounds = compressors.qsgd(levels=1, bucket=4)
  level = qsgd.strategy(rounds)
  both = hierarchical.strategy(2, 1, inner=level, outer=level).gradients
  tree = {'x': jnp.tile(jnp.float32([0.3, 0.5, 0.7, 0.4] * 2), (P, 1))}
  where = executors.executor(P, 'vmap')
  state = where.run(both.init)(tree)

  @where.run
  def means(tree, state):
    step = lambda t: both.update(tree, state, t)[0]['x']
    return jax.lax.map(step, jnp.arange(4000)).mean(0)

  found = np.asarray(means(tree, state))[0]
  np.testing.assert_allclose(found, tree['x'][0], atol=0.03)


def test_several_axes_of_workers_are_refused_by_groups():
  mesh = jax.make_mesh(
    (2, 2),
    ('a', 'b'),
    devices=jax.devices()[:P],
    axis_types=(jax.sharding.AxisType.Auto,) * 2,
  )
  worker = gossipjax.worker(
    hierarchical.strategy(2, 1), optax.sgd(RATE), axis=('a', 'b')
  )
  step = lambda x: worker.update(worker.init(x), x)[0].params
  rows = jax.P(('a', 'b'))
  program = jax.jit(
    jax.shard_map(step, mesh=mesh, in_specs=rows, out_specs=rows)
  )
  with pytest.raises(UserError, match='single axis of workers'):
    program(jnp.ones((P, 4)))


@pytest.mark.parametrize('executor', ['vmap', 'shard_map'])
@pytest.mark.parametrize(
  'name, reduce',
  [
    ('pmin', lambda x: lax.pmin(x, WORKERS)),
    ('all_gather', lambda x: lax.all_gather(x, WORKERS, tiled=True)),
    ('reduce_scatter', lambda x: lax.psum_scatter(x, WORKERS, tiled=True)),
  ],
)
def test_a_collective_that_groups_do_not_support_is_refused(
  name, reduce, executor
):
  own = stateless(lambda tree, step, active: (reduce(tree), SILENCE))
  on = executors.executor(4, executor)
  with pytest.raises(UserError, match=f'lax.{name}.* within groups; use psum'):
    on.run(
      lambda x: groups.among(groups.consecutive_groups(2), own).update(
        x, (), 0
      )[0]
    )(on.put(np.ones((4, 2), np.float32)))
