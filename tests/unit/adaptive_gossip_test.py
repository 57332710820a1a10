"""Triggers and triggered exchanges against a reference written in NumPy."""

import re
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import collectives, executors, topology, triggers
from gossipjax.aggregator import every
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.local_step import make_worker
from gossipjax.strategies import adaptive_gossip, gossip
from gossipjax.training.run import resolve_run
from gossipjax.triggers.trigger import bounded

pytestmark = pytest.mark.usefixtures('compile_quickly')

P, STEPS, RATE, SIZE = 4, 40, 0.05, 17
LAYERS = (slice(0, 5), slice(5, 17))


def tree_of(x):
  return {
    'b': jnp.float32(x[:, :5]),
    'w': jnp.float32(x[:, 5:]).reshape(-1, 3, 4),
  }


def rows(tree):
  """f64[workers, entries]."""
  return np.concatenate(
    [
      np.asarray(tree[k], np.float64).reshape(len(tree[k]), -1)
      for k in ('b', 'w')
    ],
    axis=1,
  )


RNG = np.random.default_rng(1)
START = np.tile(RNG.standard_normal(SIZE), (P, 1))
CURVATURE = RNG.uniform(0.2, 2, (P, SIZE))
MINIMUM = RNG.standard_normal((P, SIZE)) * [[1], [2], [4], [8]]


def gradient(x):
  return CURVATURE * (x - MINIMUM)


def train(strategy, present=None, steps=STEPS):
  """Yields parameters and traffic after each step of SGD, on one device."""
  init, update = make_worker(strategy, optax.sgd(RATE))
  has_absences = present is not None
  run = executors.on_one_device(
    lambda w, g, here, step: (
      update(w, g, step, talking=here) if has_absences else update(w, g, step)
    )
  )
  present = np.ones((steps, P), bool) if present is None else present
  worker = jax.vmap(init, axis_name=collectives.WORKERS)(tree_of(START))
  for t in range(steps):
    grads = tree_of(gradient(rows(worker.params)))
    worker, sent = run(worker, grads, present[t], step=jnp.int32(t))
    yield rows(worker.params), sent


# Reference triggers, of one worker and part: `wants` is called after the local
# step, `settle` after the exchange.


class RelativeDrift:
  def __init__(self, x, scale=6.0, decay=0.9):
    self.s, self.last, self.pace = x, x, 0.0
    self.scale, self.decay = scale, decay

  def wants(self, x, t):
    size = np.linalg.norm(self.s)
    moved = np.linalg.norm(x - self.last) / size
    self.pace = self.decay * self.pace + (1 - self.decay) * moved
    return np.linalg.norm(x - self.s) / size > self.scale * self.pace

  def settle(self, x, reset):
    self.last = x
    self.s = x if reset else self.s


class TargetInterval:
  def __init__(self, x, interval=12.5, kappa=0.5):
    self.s, self.threshold, self.since = x, 0.0, 0
    self.interval, self.kappa = interval, kappa

  def wants(self, x, t):
    self.since += 1
    drift = np.linalg.norm(x - self.s) / np.linalg.norm(self.s)
    self.threshold = self.threshold or self.interval * drift
    eased = min(1, self.interval / self.since) ** self.kappa
    return drift > self.threshold * eased

  def settle(self, x, reset):
    if reset:
      self.threshold *= (self.interval / self.since) ** self.kappa
      self.s, self.since = x, 0


class NormSlope:
  def __init__(self, x, horizon=1.0, warmup=30):
    self.sent, self.threshold, self.slopes = np.linalg.norm(x), 0.0, [0.0, 0.0]
    self.since, self.horizon, self.warmup = 0, horizon, warmup

  def wants(self, x, t):
    self.now, self.since = np.linalg.norm(x), self.since + 1
    self.threshold *= self.horizon
    return abs(self.now - self.sent) >= self.threshold or t < self.warmup

  def settle(self, x, reset):
    if reset:
      slope = abs(self.now - self.sent) / self.since
      self.slopes = [self.slopes[1], slope]
      self.threshold = np.mean(self.slopes)
      self.sent, self.since = self.now, 0


class StepSize:
  def __init__(self, x, learning_rate, squared_steps, growth=0.0):
    self.s, self.rate = x, learning_rate
    self.c, self.growth = squared_steps, growth

  def wants(self, x, t):
    c = self.c * (t + 1) ** self.growth
    return np.square(x - self.s).sum() > c * self.rate**2

  def settle(self, x, reset):
    self.s = x if reset else self.s


NEIGHBORS = (topology.mixing_matrix(topology.ring(P)[0], P) > 0) & ~np.eye(
  P, dtype=bool
)


def by_hand(make, parts, scope='local', present=None, reset_on_receipt=True):
  """Yields parameters and which pairs exchanged, bool[parts, P, P], by step."""
  x = START.copy()
  memory = [[make(x[i, p]) for i in range(P)] for p in parts]
  for t in range(STEPS):
    here = np.ones(P, bool) if present is None else present[t]
    x, talks = x - RATE * gradient(x), []
    stepped = x.copy()
    for p, triggers_of_part in zip(parts, memory, strict=True):
      # `wants` changes the memory; that of an absent worker must stay.
      wants = np.array(
        [
          here[i] and m.wants(stepped[i, p], t)
          for i, m in enumerate(triggers_of_part)
        ]
      )
      started = (
        wants[:, None] | wants[None]
        if scope == 'local'
        else (np.full((P, P), wants.any()))
      )
      talk = started & NEIGHBORS & here[:, None] & here[None]
      for i in range(P):
        x[i, p] += (
          sum(stepped[j, p] - stepped[i, p] for j in np.flatnonzero(talk[i]))
          / 3
        )
      for i, m in enumerate(triggers_of_part):
        if here[i]:
          talked = talk[i].any() if scope == 'local' else wants.any()
          m.settle(x[i, p], talked and (reset_on_receipt or wants[i]))
      talks.append(talk)
    yield x.copy(), np.array(talks)


WHOLE = (slice(0, SIZE),)
CASES = {
  'relative_drift': (RelativeDrift, WHOLE, {}),
  'relative_drift, tuned': (RelativeDrift, WHOLE, dict(scale=3.0, decay=0.5)),
  'relative_drift, layers': (RelativeDrift, LAYERS, dict(per_layer=True)),
  'target_interval': (TargetInterval, WHOLE, dict(interval=4.0)),
  'norm_slope': (NormSlope, LAYERS, dict(warmup=3)),
  'norm_slope, model': (
    NormSlope,
    WHOLE,
    dict(warmup=3, horizon=1.1, per_layer=False),
  ),
  'step_size': (
    StepSize,
    WHOLE,
    dict(learning_rate=RATE, squared_steps=400.0, growth=0.3),
  ),
}


def both(case, **settings):
  make, parts, options = CASES[case]
  name = case.split(',')[0]
  own = {k: v for k, v in options.items() if k != 'per_layer'}
  present = settings.pop('present', None)
  trigger = getattr(triggers, name)(**own)
  strategy = adaptive_gossip.strategy(
    trigger, per_layer=options.get('per_layer'), **settings
  )
  return train(strategy, present), by_hand(
    lambda x: make(x, **own), parts, present=present, **settings
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'settings', [{}, {'scope': 'all'}, {'reset_on_receipt': False}], ids=str
)
@pytest.mark.parametrize('case', CASES)
def test_every_trigger_matches_its_reference(case, settings):
  ours, hand = both(case, **settings)
  parts = CASES[case][1]
  sizes = np.array([4 * SIZE] if parts is WHOLE else [20, 48])
  talked = []
  for (x, sent), (y, talks) in zip(ours, hand, strict=True):
    np.testing.assert_allclose(x, y, atol=2e-5 * np.abs(y).max())
    if settings.get('scope') == 'all':
      flags = collectives.ring_bytes(len(parts), P)
      bill = flags + (talks.sum(axis=2) * sizes[:, None]).sum(axis=0)
    else:  # For each neighbor, a flag with the parameters and one back.
      bill = (talks.sum(axis=2) * (sizes + 2)[:, None]).sum(axis=0)
    np.testing.assert_array_equal(sent.bytes, bill)
    np.testing.assert_array_equal(sent.received, bill)
    talked.append(talks[:, NEIGHBORS])
  assert 0.02 < np.mean(talked) < 0.98  # Otherwise the test is vacuous.


@pytest.mark.parametrize(
  'case, scope',
  [
    ('relative_drift', 'local'),
    ('norm_slope', 'local'),
    ('norm_slope', 'all'),
  ],
)
def test_absent_workers_take_no_part_in_exchanges(case, scope):
  present = np.random.default_rng(2).random((STEPS, P)) < 0.7
  ours, hand = both(case, present=present, scope=scope)
  for t, ((x, sent), (y, _)) in enumerate(zip(ours, hand, strict=True)):
    np.testing.assert_allclose(x, y, atol=2e-5 * np.abs(y).max())
    assert not sent.bytes[~present[t]].any()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'trigger',
  [
    triggers.relative_drift(scale=0.0),
    triggers.norm_slope(horizon=0.0),
    triggers.fixed(period=1),
    triggers.random(rate=1.0),
  ],
  ids=['relative_drift', 'norm_slope', 'fixed', 'random'],
)
@pytest.mark.parametrize('scope', ['local', 'all'])
def test_a_trigger_that_always_fires_is_gossip_at_every_step(trigger, scope):
  adaptive = train(adaptive_gossip.strategy(trigger, scope))
  for (x, _), (y, _) in zip(adaptive, train(gossip.strategy()), strict=True):
    np.testing.assert_allclose(x, y, atol=1e-6)


@pytest.mark.parametrize('scope', ['local', 'all'])
def test_the_fixed_control_matches_gossip_with_a_period_up_to_flags(scope):
  fixed = adaptive_gossip.strategy(triggers.fixed(period=3), scope)
  for (x, ours), (y, theirs) in zip(
    train(fixed), train(gossip.strategy(period=3)), strict=True
  ):
    np.testing.assert_allclose(x, y, atol=1e-6)
    # scope=local adds four flags, two per neighbor; silent steps bill nothing.
    theirs = np.asarray(theirs.bytes)
    flags = 4 * (scope == 'local') * (theirs > 0)
    np.testing.assert_array_equal(ours.bytes, theirs + flags)


def bytes_of_random(scope, rate=0.2):
  """Bytes of each step and worker."""
  method = adaptive_gossip.strategy(triggers.random(rate, seed=3), scope)
  return np.array([sent.bytes for _, sent in train(method, steps=200)])


def test_the_random_control_exchanges_at_its_rate():
  sent = {scope: bytes_of_random(scope) for scope in ('all', 'local')}
  # The shares of traffic saved, as in the docstring of `triggers.random`.
  for scope, saved in (('all', 0.8), ('local', 0.8**2)):
    share = sent[scope].mean() / sent[scope].max()
    np.testing.assert_allclose(1 - share, saved, atol=0.06)
  silent_all, silent_local = sent['all'] == 0, sent['local'] == 0
  assert (silent_all == silent_all[:, :1]).all()  # No flags are billed.
  np.testing.assert_allclose(silent_all.mean(), 0.8, atol=0.06)
  assert (silent_local != silent_local[:, :1]).any()
  # Silent: neither the worker nor either of its two neighbors starts.
  np.testing.assert_allclose(silent_local.mean(), 0.8**3, atol=0.06)


@pytest.mark.exhaustive
@pytest.mark.parametrize('case', CASES)
@pytest.mark.parametrize('scope', ['local', 'all'])
def test_exchanges_preserve_the_mean_whichever_triggers_fire(case, scope):
  name, (_, _, options) = case.split(',')[0], CASES[case]
  options = options | ({'warmup': 0} if name == 'norm_slope' else {})
  per_layer = options.pop('per_layer', None)
  mean = adaptive_gossip.strategy(
    getattr(triggers, name)(**options), scope, per_layer=per_layer
  ).parameters
  run = executors.on_one_device(mean.update)
  rng = np.random.default_rng(5)
  x = rng.standard_normal((P, SIZE))
  state, differ = jax.vmap(mean.init)(tree_of(x)), False
  for t in range(40):
    x = x + rng.standard_normal((P, SIZE)) * [[0.1], [0.01], [0.1], [2]]
    tree, state, sent = run(tree_of(x), state, step=jnp.int32(t))
    np.testing.assert_allclose(
      rows(tree).mean(axis=0), x.mean(axis=0), atol=2e-5
    )
    differ |= bool(np.ptp(np.asarray(sent.bytes)) > 0)
    x = rows(tree)
  assert differ == (scope == 'local')


def times(trigger, parts):
  """Steps at which a single worker's trigger fires on the path `parts`."""

  def step(carry, part):
    memory, t = carry
    wants, memory = trigger.update(part, memory, t, 0)
    return (trigger.settle(part, memory, wants), t + 1), wants

  _, wants = jax.lax.scan(
    step, (trigger.init(parts[0]), jnp.int32(0)), parts[1:]
  )
  return np.flatnonzero(wants)


def straight(steps=600):
  """A path in one direction; halfway, steps become ten times shorter."""
  rate = np.where(np.arange(steps) < steps // 2, 0.01, 0.001)
  return jnp.float32(np.cumsum(rate)[:, None] * np.ones(50) + 1)


def noisy(steps=3_000):
  """A random walk around 100, large compared with its steps."""
  noise = np.random.default_rng(6).standard_normal((steps, 50))
  return jnp.float32(100 + np.cumsum(0.01 * noise, axis=0))


def test_the_scale_of_relative_drift_sets_the_steps_between_exchanges():
  assert np.median(
    np.diff(times(triggers.relative_drift(9.0), straight())[5:])
  ) in (9, 10)
  gaps = np.diff(times(triggers.relative_drift(4.0), noisy())[5:])
  assert 12 < gaps.mean() < 20  # 4^2 steps.


@pytest.mark.parametrize('walk', [straight, noisy])
def test_the_target_interval_is_met_on_straight_and_noisy_paths(walk):
  parts = walk()
  found = times(triggers.target_interval(12.5), parts)
  late = found[found > len(parts) * 3 // 4]
  np.testing.assert_allclose(np.diff(late).mean(), 12.5, rtol=0.15)


def schedule(step):
  return jnp.where(step < 300, 0.1, 0.01)


@pytest.mark.parametrize(
  'trigger',
  [
    triggers.relative_drift(),
    triggers.target_interval(),
    triggers.norm_slope(),
    triggers.step_size(squared_steps=50.0, schedule=schedule),
  ],
)
def test_triggers_still_fire_after_a_drop_of_the_learning_rate(trigger):
  found = times(trigger, straight())
  before = ((found > 150) & (found < 300)).sum()
  after = (found > 450).sum()
  assert 5 < before < 2 * after


@pytest.mark.parametrize(
  'trigger', [triggers.target_interval(), triggers.relative_drift()]
)
def test_a_layer_of_zeros_is_exchanged_at_least_half_as_often(trigger):
  def exchanges(begin, noise=0.01):
    goal = jax.random.normal(jax.random.key(0), begin.shape)

    def step(carry, t):
      x, memory = carry
      z = jax.random.normal(jax.random.fold_in(jax.random.key(1), t), x.shape)
      x += 0.01 * (goal - x) + noise * z
      wants, memory = trigger.update(x, memory, t, 0)
      return (x, trigger.settle(x, memory, wants)), wants

    first = begin, trigger.init(begin)
    return jax.lax.scan(step, first, jnp.arange(1000))[1].sum()

  assert exchanges(jnp.zeros(20)) > exchanges(jnp.ones(20)) / 2


def test_step_size_follows_the_schedule_unless_it_has_a_learning_rate():
  config = resolve.strategy_config('adaptive_gossip')
  config.trigger.update(name='step_size', squared_steps=100.0)
  with pytest.raises(UserError, match='learning_rate of step_size is missing'):
    resolve.strategy(config)
  sent = lambda strategy: sum(
    int(np.asarray(bill.bytes).sum()) for _, bill in train(strategy)
  )
  follows = sent(resolve.strategy(config, lambda step: RATE))
  config.trigger.learning_rate = RATE
  assert follows == sent(resolve.strategy(config, lambda step: 99 * RATE))
  config.trigger.learning_rate = None
  assert follows > sent(resolve.strategy(config, lambda step: 99 * RATE))


def test_a_constant_threshold_rarely_fires_after_a_drop_of_the_rate():
  found = times(triggers.step_size(0.1, 50.0), straight())
  assert (found > 450).sum() < ((found > 150) & (found < 300)).sum() / 5


@pytest.mark.parametrize('scale, every', [(0.0, 3), (1e9, 5)])
def test_exchanges_stay_within_the_bounds(scale, every):
  trigger = bounded(triggers.relative_drift(scale), 3, 5)
  found = times(trigger, straight(60))
  assert set(np.diff(found[1:])) == {every}


def stepper(trigger):
  """Returns a function that repeats a step from the state after the first.

  A worker has 5 M parameters. The function returns the seconds of the step and
  the bytes of a worker.
  """
  mesh = executors.executor(8, 'shard_map')
  mean = adaptive_gossip.strategy(trigger, scope='all').parameters
  tree = mesh.put(
    {f'{k}': np.ones((8, 1000, 1000), np.float32) for k in range(5)}
  )
  copy = lambda tree: jax.tree.map(lambda x: x + 0, tree)
  run = mesh.run(mean.update, donate=(0, 1))
  *begun, _ = run(
    jax.tree.map(lambda x: x + 1, tree),
    mesh.run(mean.init)(tree),
    step=jnp.int32(0),
  )

  def step():
    tree, state = jax.block_until_ready(copy(begun))
    begin = time.perf_counter()
    *_, sent = jax.block_until_ready(run(tree, state, step=jnp.int32(5)))
    return time.perf_counter() - begin, int(sent.bytes[0])

  return step


def test_a_second_receipt_between_two_steps_keeps_the_slopes():
  """A slope over no steps is none: it would halve the threshold."""
  trigger, x = triggers.norm_slope(), jnp.full(4, 3.0)
  memory = trigger.init(x)
  for step in range(3):
    _, memory = trigger.update(x * (1 + step), memory, jnp.int32(step), 0)
    memory = trigger.settle(x, memory, step > 0)
  again = trigger.settle(x, memory, True)
  assert memory.threshold > 0
  for one, other in zip(memory, again, strict=True):
    np.testing.assert_array_equal(one, other)


def test_with_scope_all_workers_have_to_be_synchronous():
  config = defaults.get_config('adaptive_gossip')
  config.strategy.scope = 'all'
  config.cluster = defaults.cluster(asynchronous=True)
  with pytest.raises(UserError, match='adaptive_gossip needs all workers at'):
    resolve_run(config)
  config.cluster = defaults.cluster(asynchronous=False)
  resolve_run(config)


# Triggers that use only the norm of the parameters, or nothing: computing a
# distance costs half as much as an exchange through this machine's memory.
@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'loud, quiet, flags',
  [
    (triggers.fixed(period=1), triggers.fixed(period=99), 0),
    (triggers.norm_slope(warmup=99), triggers.norm_slope(warmup=1), 9),
  ],
  ids=['fixed', 'norm_slope'],
)
def test_a_silent_step_with_scope_all_takes_less_than_half_of_an_exchange(
  loud, quiet, flags, compile_as_always
):
  talking, silent = stepper(loud), stepper(quiet)
  # Alternating, so that other load on the machine affects both.
  found = np.array([(talking(), silent()) for _ in range(8)])
  (talking_s, sent), (silent_s, flag) = found.min(axis=0)
  assert (flag, sent) == (flags, flags + 40_000_000)
  assert silent_s < 0.5 * talking_s


def computations(hlo):
  """The body of each computation of a compiled program, by name."""
  found = re.findall(r'^(ENTRY )?%?(\S+) \(.*?{\n(.*?)^}', hlo, re.M | re.S)
  return {'ENTRY' if entry else name: body for entry, name, body in found}


@pytest.mark.exhaustive
@pytest.mark.parametrize('executor', ['shard_map', 'vmap'])
@pytest.mark.parametrize('trigger', ['relative_drift', 'fixed', 'norm_slope'])
def test_with_scope_all_the_exchange_is_a_branch_of_the_compiled_program(
  trigger, executor, compile_as_always
):
  where = executors.executor(8, executor)
  mean = adaptive_gossip.strategy(
    getattr(triggers, trigger)(), scope='all'
  ).parameters
  tree = where.put({'x': np.ones((8, 100), np.float32)})
  state = where.run(mean.init)(tree)
  hlo = (
    where.run(mean.update)
    .lower(tree, state, step=jnp.int32(0))
    .compile()
    .as_text()
  )
  bodies = computations(hlo)
  assert ' conditional(' in bodies['ENTRY']
  if executor == 'shard_map':
    assert 'collective-permute' not in bodies['ENTRY']
    assert any('collective-permute' in body for body in bodies.values())
    flag = ' all-reduce' in bodies['ENTRY']
    assert flag == (trigger != 'fixed')  # `fixed` needs no agreement.


def test_with_scope_local_messages_move_at_every_step(compile_as_always):
  mesh = executors.executor(8, 'shard_map')
  mean = adaptive_gossip.strategy().parameters
  tree = mesh.put({'x': np.ones((8, 100), np.float32)})
  state = mesh.run(mean.init)(tree)
  hlo = (
    mesh.run(mean.update)
    .lower(tree, state, step=jnp.int32(0))
    .compile()
    .as_text()
  )
  assert 'collective-permute' in computations(hlo)['ENTRY']


def named(name, **options):
  return {'trigger': {'name': name, **options}}


def drift(**options):
  return named('relative_drift', **options)


@pytest.mark.parametrize(
  'options, message',
  [
    (dict(trigger='relativ_drift'), "did you mean 'relative_drift'"),
    (dict(trigger=6.0), 'trigger=6.0 has the wrong type'),
    (dict(trigger={'scale': 2.0}), 'needs strategy.trigger.name'),
    (dict(scope='everyone'), 'scope=everyone is unknown'),
    (drift(scale=-1.0), 'scale must be at least 0'),
    (drift(decay=1.0), 'decay must be below 1'),
    (named('fixed', period=0), 'period must be at least 1'),
    (named('fixed', scale=2.0), 'strategy.trigger.scale is unknown'),
    (named('step_size'), 'learning_rate of step_size is missing'),
    (named('step_size', learning_rate=0.0), 'learning_rate must be above 0'),
    (named('random', rate=1.5), 'rate is a probability'),
    (named('norm_slope', horizon=-1.0), 'horizon must be at least 0'),
    (named('target_interval', interval=0.5), 'interval must be at least 1'),
    (dict(shortest=0), 'shortest must be at least 1'),
    (dict(shortest=4, longest=3), 'longest=3'),
  ],
  ids=str,
)
def test_invalid_options_are_refused_by_name(options, message):
  with pytest.raises(UserError, match=message):
    resolve.strategy({'name': 'adaptive_gossip', **options})


def test_a_config_sets_a_trigger_and_its_arguments():
  config = resolve.strategy_config('adaptive_gossip')
  config.trigger.name = 'fixed'
  config.trigger.period = 3
  from_config = train(resolve.strategy(config))
  given = train(adaptive_gossip.strategy(triggers.fixed(period=3)))
  for (x, ours), (y, theirs) in zip(from_config, given, strict=True):
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(ours.bytes, theirs.bytes)


def test_a_directed_topology_is_refused_with_scope_local_only():
  directed = adaptive_gossip.strategy(topology=topology.exponential)
  with pytest.raises(UserError, match='scope=local needs'):
    next(train(directed))
  next(
    train(adaptive_gossip.strategy(topology=topology.exponential, scope='all'))
  )


def test_an_update_does_not_modify_the_state_that_it_is_given():
  strategy = every(2, adaptive_gossip.strategy().parameters)
  tree = {'x': jnp.arange(8.0).reshape(4, 2)}
  state = jax.vmap(strategy.init)(tree)
  step = lambda t, s: strategy.update(t, s, jnp.int32(0))[:2]
  together = jax.vmap(step, axis_name=collectives.WORKERS)
  out, after = together(tree, state)  # Without an exchange.
  np.testing.assert_array_equal(out['x'], tree['x'])
  assert jax.tree.structure(after) == jax.tree.structure(state)
