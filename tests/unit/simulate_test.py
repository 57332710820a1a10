"""Methods in virtual time against the same written by hand in NumPy.

The programs by hand know nothing of timelines: they have a list of events of
their own (three workers that compute with unequal speeds on an instant or a
slow link) and one line of mathematics per method.
"""

import itertools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import executors, network, topology, triggers
from gossipjax.config import defaults
from gossipjax.errors import UserError
from gossipjax.local_step import make_worker
from gossipjax.simulation import dry_run, simulate
from gossipjax.simulation.cluster import cluster
from gossipjax.simulation.timeline import Stalled
from gossipjax.strategies import (
  adaptive_gossip,
  all_reduce,
  decoupled_diloco,
  elastic,
  gossip,
  gtopk,
  hierarchical,
  local_sgd,
  pairwise_gossip,
  parameter_server,
  pull_gossip,
  push_gossip,
  push_sum,
  topk,
)
from gossipjax.tasks.task import Task
from gossipjax.training import evaluate, loop, worker_program
from gossipjax.training.ledger import Ledger
from gossipjax.training.run import Run, resolve_run
from gossipjax.transforms import outer_optimizers

P, EVENTS, RATE, SIZE, STEP_S = 3, 50, 0.05, 17, 0.1
SPEEDS = (1.0, 1.37, 2.11)
INSTANT = network.Link(0.0, float('inf'))
START = np.random.default_rng(2).standard_normal(SIZE)
CURVATURE, MINIMUM = (
  np.random.default_rng(1).uniform(0.5, 2, (P, SIZE)),
  np.random.default_rng(3).standard_normal((P, SIZE)),
)
"""Worker i's loss is the sum of curvature_i / 2 (x - minimum_i)^2."""


def gradient(i, x):
  return CURVATURE[i] * (x - MINIMUM[i])


def quadratic(params, state, examples, worker, t):
  del t
  curvature, minimum = (jnp.float32(x)[worker] for x in (CURVATURE, MINIMUM))
  loss = lambda p: jnp.sum(curvature / 2 * (p['x'] - minimum) ** 2)
  loss, grads = jax.value_and_grad(loss)(params)
  return (loss, state), grads


def sailing(
  strategy, link=INSTANT, optimizer=None, workers=P, seed=0, **machines
):
  """A runner on quadratics, its timeline and its ledger."""
  machines = {'step_s': STEP_S, 'factors': SPEEDS, **machines}
  found = cluster(workers, EVENTS, link, **machines)
  task = Task(
    lambda key: {'x': jnp.float32(START)},
    None,
    None,
    {'none': np.zeros((workers, 1))},
    None,
  )
  run = Run(
    workers=workers,
    steps=EVENTS,
    batch_size=1,
    seed=seed,
    log_every=1,
    eval_every=0,
    checkpoint_every=0,
    task=task,
    strategy=strategy,
    optimizer=optimizer or optax.sgd(RATE),
    executor=executors.executor(workers, 'vmap'),
    links={'link': link},
    cluster=found,
  )
  exchange = simulate.exchange_of(run)
  run = simulate.with_exchange(run, exchange)
  program = worker_program.worker_program(run)._replace(gradient=quadratic)
  ledger = Ledger({}, workers)
  runner = simulate.round_runner_of(
    program, exchange, *worker_program.start(run, program), ledger
  )
  return runner, simulate.timeline_of(run, exchange, runner), ledger


def where(fleet):
  return np.asarray(fleet.params['x'], np.float64)


def finishes():
  """Who is done when, on an instant link: (time, worker), by hand."""
  times = [
    (STEP_S * SPEEDS[i] * k, i) for i in range(P) for k in range(1, EVENTS + 1)
  ]
  return [i for _, i in sorted(times)[:EVENTS]]


def drawn(strategy, i, step, seed=0):
  """The partner that the timeline draws for a step of a worker."""
  return strategy.async_exchange(P).draw(
    i, np.random.default_rng((seed, 1, i, step))
  )


def same(strategy, by_hand, **machines):
  """Follows a method for EVENTS events beside its double written by hand."""
  fleet, clock, _ = sailing(strategy, **machines)
  steps = [0] * P
  for i, expected in zip(finishes(), by_hand, strict=True):
    clock.next()
    steps[i] += 1
    np.testing.assert_allclose(where(fleet), expected, atol=1e-5)
  return fleet


def downpour(period=1):
  x, taken = np.tile(START, (P, 1)), np.tile(START, (P, 1))
  center, pulled, steps = START.copy(), x.copy(), [0] * P
  for i in finishes():
    x[i] -= RATE * gradient(i, taken[i])
    steps[i] += 1
    if steps[i] % period == 0:
      center = center + x[i] - pulled[i]
      x[i] = pulled[i] = center
    taken[i] = x[i]
    yield x


def decoupled(period=4, quorum=2, grace=0):
  x, taken = np.tile(START, (P, 1)), np.tile(START, (P, 1))
  center, pulled, steps = START.copy(), x.copy(), [0] * P
  reports, closes = [], None
  for i in finishes():
    x[i] -= RATE * gradient(i, taken[i])
    steps[i] += 1
    if steps[i] % period == 0:
      reports.append(pulled[i] - x[i])
      if len(reports) >= quorum:
        closes = steps[i] + grace if closes is None else closes
        if steps[i] >= closes or len(reports) == P:
          center = center - np.mean(reports, axis=0)
          reports, closes = [], None
      x[i] = pulled[i] = center
    taken[i] = x[i]
    yield x


def springs():
  x, center = np.tile(START, (P, 1)), START.copy()
  for i in finishes():
    x[i] -= RATE * gradient(i, x[i])
    pull = 0.8 / P * (x[i] - center)
    x[i], center = x[i] - pull, center + pull
    yield x


def pulling(strategy):
  x, published = np.tile(START, (P, 1)), np.tile(START, (P, 1))
  steps = [0] * P
  for i in finishes():
    x[i] -= RATE * gradient(i, x[i])
    published[i] = x[i]
    (j,) = drawn(strategy, i, steps[i])
    x[i] = (x[i] + published[j]) / 2
    steps[i] += 1
    yield x


def pushing(strategy, order=()):
  x, inbox, steps = np.tile(START, (P, 1)), [[] for _ in range(P)], [0] * P
  for i in order or finishes():
    x[i] -= RATE * gradient(i, x[i])
    (j,) = drawn(strategy, i, steps[i])
    w = 2 if i == j else 1
    if i != j:
      inbox[j].append(x[i].copy())
    x[i] = (w * x[i] + sum(inbox[i])) / (w + len(inbox[i]))
    inbox[i], steps[i] = [], steps[i] + 1
    yield x


def pairing(strategy, exchange):
  """Two at once: the gradient is stale if the other's exchange came between."""
  x, w, steps = np.tile(START, (P, 1)), np.ones(P), [0] * P
  taken = np.tile(START, (P, 1))
  for i in finishes():
    x[i] -= w[i] * RATE * gradient(i, taken[i])
    (j,) = drawn(strategy, i, steps[i])
    if i != j:
      exchange(x, w, i, j)
    steps[i] += 1
    z = x / w[:, None]
    taken[i] = z[i]
    yield z


def average(x, w, i, j):
  del w
  x[[i, j]] = (x[i] + x[j]) / 2


def give_half(x, w, i, j):
  for held in (x, w):
    share = held[i] / 2
    held[i] = held[i] - share
    held[j] = held[j] + share


def triggered(strategy, scale=2.0, decay=0.9):
  """AD-PSGD of those whose drift is large beside its own pace."""
  x, steps = np.tile(START, (P, 1)), [0] * P
  taken, last, shared = x.copy(), x.copy(), x.copy()
  pace, talks = np.zeros(P), 0
  norm = np.linalg.norm
  for i in finishes():
    x[i] -= RATE * gradient(i, taken[i])
    size = norm(shared[i])
    pace[i] = decay * pace[i] + (1 - decay) * norm(x[i] - last[i]) / size
    wants = norm(x[i] - shared[i]) / size > scale * pace[i]
    (j,) = drawn(strategy, i, steps[i])
    if wants:
      talks += 1
      x[[i, j]] = (x[i] + x[j]) / 2
      shared[[i, j]] = x[i]
    last[[i, j]] = x[[i, j]]
    steps[i] += 1
    taken[i] = x[i]
    yield x
  assert 5 < talks < EVENTS - 5


EASGD = elastic.strategy(look_ahead=0.0)
PULL = pull_gossip.strategy(look_ahead=0.0)
PUSH = push_gossip.strategy(look_ahead=0.0)
DECOUPLED, PATIENT = (
  decoupled_diloco.strategy(
    4, quorum, 'mean', outer_optimizers.sgd(1.0), grace=grace
  )
  for quorum, grace in ((2, 0), (1, 1))
)
PAIRS = pairwise_gossip.strategy()
RING = gossip.strategy()
GOSGD = push_sum.strategy(topology.complete)
TRIGGERED = adaptive_gossip.strategy(triggers.relative_drift(scale=2.0))
BY_HAND = {
  'downpour': (parameter_server.strategy(), downpour),
  'async_local_sgd': (local_sgd.strategy(4), lambda: downpour(4)),
  'decoupled': (DECOUPLED, decoupled),
  'patient': (PATIENT, lambda: decoupled(quorum=1, grace=1)),
  'easgd': (EASGD, springs),
  'pull': (PULL, lambda: pulling(PULL)),
  'push': (PUSH, lambda: pushing(PUSH)),
  'adpsgd': (PAIRS, lambda: pairing(PAIRS, average)),
  'gossip': (RING, lambda: pairing(RING, average)),
  'gosgd': (GOSGD, lambda: pairing(GOSGD, give_half)),
  'adaptive': (TRIGGERED, lambda: triggered(TRIGGERED)),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', BY_HAND)
def test_each_method_is_the_one_written_by_hand(name):
  strategy, by_hand = BY_HAND[name]
  same(strategy, by_hand())


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'one, apart',
  [
    (parameter_server.strategy(), parameter_server.strategy()),
    (EASGD, EASGD),
    (local_sgd.strategy(4), local_sgd.strategy(4)),
  ],
)
def test_alike_workers_on_an_instant_link_are_in_step_without_waiting(
  one, apart
):
  alike = {'factors': (), 'optimizer': optax.sgd(RATE, momentum=0.9)}
  together, slow, _ = sailing(one, asynchronous=False, **alike)
  free, fast, _ = sailing(apart, **alike)
  for _ in range(12):
    slow.next()
    while fast.rounds < slow.rounds:
      fast.next()
    np.testing.assert_allclose(where(free), where(together), atol=1e-6)
  assert fast.now == pytest.approx(slow.now)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'strategy',
  [
    all_reduce.strategy(),
    local_sgd.strategy(4),
    topk.strategy(0.3),
    gtopk.strategy(0.3),
    EASGD,
    PULL,
  ],
)
def test_who_waits_does_what_lock_step_does(strategy):
  fleet, clock, ledger = sailing(
    strategy, SLOW, asynchronous=False, compute='gamma', spread=0.5
  )
  init, update = make_worker(strategy, optax.sgd(RATE))
  run = executors.on_one_device(lambda worker, g, step: update(worker, g, step))
  worker = jax.vmap(init)({'x': jnp.float32(np.tile(START, (P, 1)))})
  sent = 0
  for t in range(EVENTS):
    clock.next()
    x = np.asarray(worker.params['x'])
    grads = np.stack([gradient(i, x[i]) for i in range(P)])
    worker, bill = run(worker, {'x': jnp.float32(grads)}, step=jnp.int32(t))
    sent += bill.bytes[:]
    np.testing.assert_allclose(where(fleet), worker.params['x'], atol=1e-5)
  np.testing.assert_array_equal(ledger.bytes, sent)


SLOW = network.Link(0.01, SIZE * 4 / 0.08)  # 0.08 s for the model.
EVERYTHING = {
  'compute': 'gamma',
  'spread': 0.5,
  'stragglers': (1,),
  'sleep_s': 0.2,
  'slow': ((2, 0.5, 2.0, 3.0),),
  'failures': ((0, 1.0, 3.0), (2, 4.0)),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize('strategy', [RING, PAIRS, GOSGD, TRIGGERED])
def test_the_mean_moves_by_gradients_only_all_along_a_rough_timeline(strategy):
  # Without a gradient, whatever comes and goes: no mass may come or go.
  fleet, clock, _ = sailing(strategy, SLOW, optax.sgd(0.0), **EVERYTHING)
  apart_ = np.random.default_rng(0).standard_normal((P, SIZE))
  fleet.state = fleet.state._replace(
    workers=fleet.state.workers._replace(params={'x': jnp.float32(apart_)})
  )
  for _ in range(EVENTS):
    clock.next()
    z = where(fleet)
    memory = fleet.state.workers.parameters
    if strategy is GOSGD:
      np.testing.assert_allclose(np.asarray(memory.weight).sum(), P, rtol=1e-6)
      z = z + np.asarray(jax.tree.leaves(memory.residual)[0])
    np.testing.assert_allclose(z.mean(axis=0), apart_.mean(axis=0), atol=1e-6)
  assert strategy is TRIGGERED or not np.allclose(where(fleet), apart_)


def test_what_a_server_holds_is_what_was_pushed():
  fleet, clock, _ = sailing(parameter_server.strategy(), SLOW, **EVERYTHING)
  expected, pulled = START.copy(), np.tile(START, (P, 1))
  played = fleet.run_round

  def play(who, step):
    nonlocal expected
    (i,) = who
    expected = expected - RATE * np.asarray(fleet.state.gradients['x'][i])
    bill = played(who, step)
    pulled[i] = expected
    np.testing.assert_allclose(where(fleet)[i], expected, atol=1e-5)
    return bill

  fleet.run_round = play
  for _ in range(EVENTS):
    clock.next()
  np.testing.assert_allclose(fleet.center['x'], expected, atol=1e-5)
  assert not np.allclose(expected, START)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'strategy, asynchronous', [(TRIGGERED, True), (all_reduce.strategy(), False)]
)
def test_a_seed_is_a_timeline(strategy, asynchronous):
  def story(seed):
    machines = (
      EVERYTHING if asynchronous else {'compute': 'gamma', 'spread': 0.5}
    )
    fleet, clock, ledger = sailing(
      strategy, SLOW, seed=seed, asynchronous=asynchronous, **machines
    )
    for _ in range(20):
      clock.next()
    return clock.usage.spans, where(fleet).tolist(), ledger.to_json()

  assert story(0) == story(0)
  assert story(0) != story(1)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'strategy', [EASGD, PULL, PUSH, PAIRS, GOSGD, TRIGGERED]
)
def test_nobody_waits_for_a_worker_that_is_gone(strategy):
  _, clock, _ = sailing(strategy, failures=((1, 0.55),), factors=())
  for _ in range(EVENTS):
    clock.next()
  usage = clock.usage
  assert usage.spent_s['wait'].sum() == 0
  assert clock.now > 2
  assert {w for w, kind, since, _ in usage.spans if since > 0.55} == {0, 2}


def test_a_share_is_kept_by_who_was_given_none_for_long():
  # 140 shares in which worker 1 hangs, then six of its own.
  fleet, clock, _ = sailing(
    GOSGD, workers=2, optimizer=optax.sgd(1e-3), factors=(1.0, 140.5)
  )
  while clock.now < 6.5 * 140.5 * STEP_S:
    clock.next()
  weight = np.asarray(fleet.state.workers.parameters.weight)
  assert weight.sum() == 2 and weight.min() > 2.0**-42
  assert np.isfinite(where(fleet)).all()


def test_what_is_pushed_to_a_worker_that_is_down_waits_for_it():
  fleet, clock, _ = sailing(PUSH, failures=((1, 0.55, 1.0),))
  times = [(STEP_S * SPEEDS[i] * k, i) for i in (0, 2) for k in range(1, 30)]
  times += [(STEP_S * SPEEDS[1] * k, 1) for k in range(1, 5)]  # At 0.548 s.
  times += [(1.0 + STEP_S * SPEEDS[1] * k, 1) for k in range(1, 9)]
  order = [i for _, i in sorted(times)]
  for expected in itertools.islice(pushing(PUSH, order), 32):
    clock.next()
    np.testing.assert_allclose(where(fleet), expected, atol=1e-5)
  assert clock.now > 1.2


def test_who_comes_back_goes_on_where_it_was():
  _, clock, _ = sailing(PAIRS, failures=((1, 0.55, 1.0),), factors=())
  while clock.now < 0.99:
    clock.next()
  assert {w for w, *_, until in clock.usage.spans if until > 0.6} == {0, 2}
  for _ in range(6):
    clock.next()
  begun = [s for s in clock.usage.spans if s[0] == 1 and s[2] > 0.55]
  assert begun[0][1:3] == ('compute', 1.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'strategy',
  [
    all_reduce.strategy(),
    topk.strategy(0.5),
    gtopk.strategy(0.2),
    local_sgd.strategy(4),
  ],
)
def test_a_synchronous_round_waits_until_the_time_out(strategy):
  _, clock, _ = sailing(
    strategy,
    asynchronous=False,
    failures=((1, 0.55),),
    factors=(),
    timeout_s=5.0,
  )
  with pytest.raises(simulate.Stalled, match='worker 1') as stalled:
    for _ in range(EVENTS):
      clock.next()
  # Of the first that waits: step 6 is done at 0.6 s, step 8 at 0.8 s.
  waits = 0.8 if strategy.async_exchange else 0.6
  assert stalled.value.time_s == pytest.approx(waits + 5.0)
  assert stalled.value.worker == 1
  clock.give_up()
  assert clock.now == stalled.value.time_s
  assert clock.usage.spent_s['wait'][[0, 2]] == pytest.approx([5.0, 5.0])


def test_silent_rounds_need_no_program_for_those_who_are_left():
  """Groups of three have none for two workers."""
  inside = local_sgd.strategy(4)
  fleet, clock, _ = sailing(
    hierarchical.strategy(3, 40, inner=inside),
    asynchronous=False,
    failures=((1, 0.55),),
    factors=(),
    timeout_s=5.0,
  )
  x = np.tile(START, (P, 1))
  for step in range(7):  # Exchanges are after the fourth step and the eighth.
    clock.next()
    for i in range(P) if step < 5 else (0, 2):
      x[i] -= RATE * gradient(i, x[i])
    x = np.tile(x.mean(axis=0), (P, 1)) if step == 3 else x
  np.testing.assert_allclose(where(fleet), x, atol=1e-5)
  with pytest.raises(simulate.Stalled, match='worker 1'):
    clock.next()


def test_a_synchronous_round_waits_for_who_comes_back_in_time():
  _, clock, _ = sailing(
    all_reduce.strategy(),
    asynchronous=False,
    failures=((1, 0.55, 2.0),),
    factors=(),
    timeout_s=5.0,
  )
  for _ in range(8):
    clock.next()
  # Five rounds, one that begins anew at 2.0 s, and two more.
  assert clock.now == pytest.approx(2.1 + 0.2)
  assert clock.usage.spent_s['wait'] == pytest.approx([1.5, 0, 1.5])


def test_silent_rounds_are_no_barrier():
  times = {}
  for period in (1, 5):
    _, clock, _ = sailing(
      local_sgd.strategy(period),
      asynchronous=False,
      compute='uniform',
      spread=1.0,
      factors=(),
    )
    for _ in range(50):
      clock.next()
    times[period] = clock.now
  assert times[5] < 0.85 * times[1]


def test_backup_workers_drop_the_late_and_fetch_the_model():
  fleet, clock, ledger = sailing(
    all_reduce.strategy(), asynchronous=False, first=2, factors=(1.0, 1.2, 3.5)
  )
  x = START.copy()
  for _ in range(10):
    clock.next()
    x = x - RATE * (gradient(0, x) + gradient(1, x)) / 2
    np.testing.assert_allclose(where(fleet)[:2], [x, x], atol=1e-5)
  assert clock.now == pytest.approx(10 * 0.12)  # Nobody waits for worker 2.
  assert ledger.received[2] and not np.allclose(where(fleet)[2], START)
  assert ledger.exchanges == 10  # A fetch is part of its round.


@pytest.mark.parametrize('latency_s', [0.0, 0.04, 1.0])
def test_each_moment_of_a_late_worker_is_accounted_for(latency_s):
  """Also where a round ends before it has fetched the model."""
  _, clock, _ = sailing(
    all_reduce.strategy(),
    network.Link(latency_s, 1e9),
    asynchronous=False,
    first=2,
    factors=(1.0, 1.2, 3.5),
  )
  for _ in range(20):
    clock.next()
    total = sum(clock.usage.spent_s.values())
    assert total[:2] == pytest.approx(clock.now)
    assert total[2] > clock.now - 1e-9  # To the end of what it computes.


def test_backup_workers_stay_alike_if_computing_takes_no_time():
  fleet, clock, _ = sailing(
    all_reduce.strategy(),
    network.Link(0.1, 1e6),
    asynchronous=False,
    first=2,
    step_s=0.0,
    failures=((1, 0.5, 2.0),),
  )
  played, came = fleet.run_round, []
  fleet.run_round = lambda who, step: came.append(who) or played(who, step)
  x = START.copy()
  for _ in range(15):
    clock.next()
    x = x - RATE * sum(gradient(i, x) for i in came[-1]) / 2
    np.testing.assert_allclose(where(fleet)[came[-1]], [x, x], atol=1e-5)
  # Worker 2 has to fetch the model first, and is waited for if 1 is away.
  assert [0, 1] in came and [0, 2] in came


def test_backup_workers_go_on_without_one_that_has_failed():
  _, clock, ledger = sailing(
    all_reduce.strategy(),
    asynchronous=False,
    first=2,
    factors=(),
    failures=((2, 0.55),),
  )
  for _ in range(20):
    clock.next()
  assert clock.now == pytest.approx(20 * STEP_S)
  assert ledger.exchanges == clock.rounds == 20


@pytest.mark.parametrize('waits', [True, False])
def test_who_is_away_does_not_compute(waits):
  strategy = all_reduce.strategy() if waits else PAIRS
  _, clock, _ = sailing(
    strategy,
    asynchronous=not waits,
    factors=(),
    failures=((1, 0.55, 2.0),),
  )
  while clock.now < 2.29:
    clock.next()
  spent = clock.usage.spent_s['compute']
  assert spent[1] == pytest.approx(0.8, abs=0.11)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'name, memory',
  [('elastic', 'center'), ('power_sgd', 'q'), ('topk', ''), ('dgc', '')],
)
def test_who_may_be_late_has_no_memory_that_others_change(name, memory):
  config = defaults.get_config(name)
  config.cluster = defaults.cluster(asynchronous=False, first=7)
  if not memory:
    dry_run.trace_step(resolve_run(config))
    return
  with pytest.raises(UserError, match=rf'cluster\.first.*\({memory}\)'):
    dry_run.trace_step(resolve_run(config))


def test_who_was_late_joins_the_round_that_goes_on_when_it_is_done():
  fleet, clock, _ = sailing(
    all_reduce.strategy(),
    asynchronous=False,
    first=2,
    factors=(0.5, 1.0, 1.0),
    slow=((0, 0.0, 0.25, 18.6),),
  )
  x = START.copy()
  for who in [(1, 2)] * 9 + [(0, 1)] * 3:  # 0.93 s, then it takes 0.05 s.
    clock.next()
    x = x - RATE * sum(gradient(i, x) for i in who) / 2
    np.testing.assert_allclose(where(fleet)[list(who)], [x, x], atol=1e-5)


def test_who_missed_a_round_is_not_scored():
  """Its model is that of an older round."""
  config = defaults.get_config('all_reduce')
  config.workers, config.steps, config.eval_every = 4, 12, 4
  config.cluster = defaults.cluster(
    asynchronous=False, first=3, factors=(1.0, 1.0, 1.0, 9.0)
  )
  training = simulate.VirtualTime(resolve_run(config), None)
  for _ in range(4):
    training.advance()
  assert training.timeline.behind == {3}
  training.settle()
  found = training.record(scored=True)
  newest = jax.tree.map(lambda x: x[0], training._runner.params)
  state = jax.tree.map(lambda x: x[0], training._runner.model_state)
  expected = training._score(newest, state)['loss']
  assert found.test_loss == pytest.approx(expected, rel=1e-6)
  assert found.consensus_distance == pytest.approx(0.0, abs=1e-6)


@pytest.mark.exhaustive
def test_a_timeline_goes_on_from_json_as_if_nothing_had_happened():
  make = lambda: sailing(TRIGGERED, SLOW, **EVERYTHING)
  fleet, clock, _ = make()
  again, other, _ = make()
  for _ in range(15):
    clock.next()
  other.from_json(json.loads(json.dumps(clock.to_json())))
  again.state = jax.tree.map(jnp.array, fleet.state)
  for _ in range(25):
    clock.next()
    other.next()
    assert other.now == clock.now
  np.testing.assert_array_equal(where(again), where(fleet))
  assert json.dumps(other.to_json()) == json.dumps(clock.to_json())


@pytest.mark.exhaustive
def test_who_is_read_twice_in_an_exchange_is_still_there():
  """Of three workers one of three pulls draws somebody again."""
  runner, timeline, _ = sailing(pull_gossip.strategy(pulls=3, look_ahead=0.0))
  for _ in range(2 * EVENTS // 3):
    timeline.next()
  assert np.isfinite(where(runner)).all()


@pytest.mark.parametrize('back', [(), (2.0,)])
def test_who_is_down_is_not_scored(back):
  config = defaults.get_config('pairwise_gossip')
  config.workers, config.steps, config.eval_every = 4, 12, 4
  config.cluster = defaults.cluster(step_s=0.1, failures=((0, 0.25, *back),))
  training = simulate.VirtualTime(resolve_run(config), None)
  while training.timeline.now < 1:
    training.advance()
  training.settle()
  found = training.record(scored=True)
  of_three = jax.tree.map(lambda x: x[1:], training._runner.params)
  mean, distance = evaluate.mean_and_distance(of_three)
  assert found.consensus_distance == pytest.approx(float(distance), rel=1e-6)
  state = jax.tree.map(lambda x: x[0], training._runner.model_state)
  assert found.test_loss == pytest.approx(
    training._score(mean, state)['loss'], rel=1e-6
  )


def test_a_run_that_stalls_has_its_last_scores_when_they_were_there():
  config = defaults.get_config('all_reduce')
  config.workers, config.steps, config.eval_every = 3, 30, 10
  config.cluster = defaults.cluster(
    asynchronous=False,
    step_s=0.1,
    latency_s=0.0,
    bytes_per_s=math.inf,
    failures=((1, 1.55),),
    timeout_s=60.0,
  )
  run = resolve_run(config)
  training = simulate.VirtualTime(run, None)
  *_, last, ended = loop.records(training, run, None, lambda: False)
  assert last.step == ended.step == 15
  assert last.virtual_s == pytest.approx(1.5) and last.lost_worker is None
  assert ended.virtual_s == pytest.approx(61.6) and ended.lost_worker == 1
  assert last.test_loss == ended.test_loss


def test_time_does_not_run_backwards_where_a_round_gives_up():
  """A round that waits after silent ones, in which one worker got far ahead."""
  _, clock, _ = sailing(
    local_sgd.strategy(period=8),
    asynchronous=False,
    factors=(1.0, 1.0, 3.0),
    timeout_s=0.5,
  )
  times = [0.0]
  with pytest.raises(Stalled) as stalled:
    for _ in range(9):
      clock.next()
      times.append(clock.now)
  assert times == sorted(times) and stalled.value.time_s >= times[-1] > 2


def test_time_does_not_run_backwards_where_the_slowest_worker_is_lost():
  _, clock, _ = sailing(
    local_sgd.strategy(period=8),
    asynchronous=False,
    factors=(10.0, 1.0, 1.0),
    failures=((0, 1.05),),
  )
  times = []
  for _ in range(4):
    clock.next()
    times.append(clock.now)
  assert times == pytest.approx([1.0] * 4)
  assert clock.behind == {0}  # Though it is lost at 1.05 s only.


def test_an_unknown_executor_is_refused_in_virtual_time_too():
  config = defaults.get_config()
  config.cluster = defaults.cluster(asynchronous=False)
  config.executor = 'vmpa'
  with pytest.raises(UserError, match=r"executor=vmpa .*'vmap'"):
    resolve_run(config)
