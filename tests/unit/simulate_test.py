"""Methods in virtual time are equal to references written in NumPy.

The references do not use the simulator's timeline. They have a list of events
of their own (three workers that compute at unequal speeds on an instant link)
and a few lines of mathematics per method.
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
from gossipjax.config import defaults, resolve
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
from gossipjax.training.ledger import Diverged, Ledger
from gossipjax.training.run import Run, resolve_run
from gossipjax.transforms import outer_optimizers

pytestmark = pytest.mark.usefixtures('compile_quickly')

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


def simulated(
  strategy, link=INSTANT, optimizer=None, workers=P, seed=0, **machines
):
  """The runner of a simulation on quadratics, its timeline and its ledger."""
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


def parameters_of(fleet):
  return np.asarray(fleet.params['x'], np.float64)


def finish_order():
  """The worker that finishes each step, in order of time; instant link."""
  times = [
    (STEP_S * SPEEDS[i] * k, i) for i in range(P) for k in range(1, EVENTS + 1)
  ]
  return [i for _, i in sorted(times)[:EVENTS]]


def drawn_partners(strategy, i, step, seed=0):
  """The partners that the timeline draws for a step of a worker."""
  return strategy.async_exchange(P).draw(
    i, np.random.default_rng((seed, 1, i, step))
  )


def assert_same(strategy, reference, **machines):
  """Compares a method with its reference after each of EVENTS events."""
  fleet, clock, _ = simulated(strategy, **machines)
  for _, expected in zip(finish_order(), reference, strict=True):
    clock.next()
    np.testing.assert_allclose(parameters_of(fleet), expected, atol=1e-5)
  return fleet


def downpour(period=1):
  x, taken = np.tile(START, (P, 1)), np.tile(START, (P, 1))
  center, pulled, steps = START.copy(), x.copy(), [0] * P
  for i in finish_order():
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
  for i in finish_order():
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


def elastic_averaging():
  x, center = np.tile(START, (P, 1)), START.copy()
  for i in finish_order():
    x[i] -= RATE * gradient(i, x[i])
    pull = 0.8 / P * (x[i] - center)
    x[i], center = x[i] - pull, center + pull
    yield x


def pulling(strategy):
  x, published = np.tile(START, (P, 1)), np.tile(START, (P, 1))
  steps = [0] * P
  for i in finish_order():
    x[i] -= RATE * gradient(i, x[i])
    published[i] = x[i]
    (j,) = drawn_partners(strategy, i, steps[i])
    x[i] = (x[i] + published[j]) / 2
    steps[i] += 1
    yield x


def pushing(strategy, order=()):
  x, inbox, steps = np.tile(START, (P, 1)), [[] for _ in range(P)], [0] * P
  for i in order or finish_order():
    x[i] -= RATE * gradient(i, x[i])
    (j,) = drawn_partners(strategy, i, steps[i])
    w = 2 if i == j else 1
    if i != j:
      inbox[j].append(x[i].copy())
    x[i] = (w * x[i] + sum(inbox[i])) / (w + len(inbox[i]))
    inbox[i], steps[i] = [], steps[i] + 1
    yield x


def pairwise(strategy, exchange):
  """Exchanges of pairs; one that a partner starts makes a gradient stale."""
  x, w, steps = np.tile(START, (P, 1)), np.ones(P), [0] * P
  taken = np.tile(START, (P, 1))
  for i in finish_order():
    x[i] -= w[i] * RATE * gradient(i, taken[i])
    (j,) = drawn_partners(strategy, i, steps[i])
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
  """AD-PSGD at steps where the drift is large relative to its usual pace."""
  x, steps = np.tile(START, (P, 1)), [0] * P
  taken, last, shared = x.copy(), x.copy(), x.copy()
  pace, exchanges = np.zeros(P), 0
  norm = np.linalg.norm
  for i in finish_order():
    x[i] -= RATE * gradient(i, taken[i])
    size = norm(shared[i])
    pace[i] = decay * pace[i] + (1 - decay) * norm(x[i] - last[i]) / size
    wants = norm(x[i] - shared[i]) / size > scale * pace[i]
    (j,) = drawn_partners(strategy, i, steps[i])
    if wants:
      exchanges += 1
      x[[i, j]] = (x[i] + x[j]) / 2
      shared[[i, j]] = x[i]
    last[[i, j]] = x[[i, j]]
    steps[i] += 1
    taken[i] = x[i]
    yield x
  assert 5 < exchanges < EVENTS - 5


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
REFERENCES = {
  'downpour': (parameter_server.strategy(), downpour),
  'async_local_sgd': (local_sgd.strategy(4), lambda: downpour(4)),
  'decoupled': (DECOUPLED, decoupled),
  'patient': (PATIENT, lambda: decoupled(quorum=1, grace=1)),
  'easgd': (EASGD, elastic_averaging),
  'pull': (PULL, lambda: pulling(PULL)),
  'push': (PUSH, lambda: pushing(PUSH)),
  'adpsgd': (PAIRS, lambda: pairwise(PAIRS, average)),
  'gossip': (RING, lambda: pairwise(RING, average)),
  'gosgd': (GOSGD, lambda: pairwise(GOSGD, give_half)),
  'adaptive': (TRIGGERED, lambda: triggered(TRIGGERED)),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', REFERENCES)
def test_each_method_equals_its_reference_in_numpy(name):
  strategy, reference = REFERENCES[name]
  assert_same(strategy, reference())


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'synchronous, asynchronous',
  [
    (parameter_server.strategy(), parameter_server.strategy()),
    (EASGD, EASGD),
    (local_sgd.strategy(4), local_sgd.strategy(4)),
  ],
)
def test_identical_workers_stay_in_step_without_waiting(
  synchronous, asynchronous
):
  identical = {'factors': (), 'optimizer': optax.sgd(RATE, momentum=0.9)}
  together, clock, _ = simulated(synchronous, asynchronous=False, **identical)
  free, free_clock, _ = simulated(asynchronous, **identical)
  for _ in range(12):
    clock.next()
    while free_clock.rounds < clock.rounds:
      free_clock.next()
    np.testing.assert_allclose(
      parameters_of(free), parameters_of(together), atol=1e-6
    )
  assert free_clock.now == pytest.approx(clock.now)


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
def test_synchronous_virtual_time_equals_lock_step(strategy):
  fleet, clock, ledger = simulated(
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
    np.testing.assert_allclose(
      parameters_of(fleet), worker.params['x'], atol=1e-5
    )
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
def test_exchanges_keep_the_mean_despite_failures_and_stragglers(strategy):
  # Without gradients the mean must not change, whatever the timeline does.
  fleet, clock, _ = simulated(strategy, SLOW, optax.sgd(0.0), **EVERYTHING)
  initial = np.random.default_rng(0).standard_normal((P, SIZE))
  fleet.state = fleet.state._replace(
    workers=fleet.state.workers._replace(params={'x': jnp.float32(initial)})
  )
  for _ in range(EVENTS):
    clock.next()
    z = parameters_of(fleet)
    memory = fleet.state.workers.parameters
    if strategy is GOSGD:
      np.testing.assert_allclose(np.asarray(memory.weight).sum(), P, rtol=1e-6)
      z = z + np.asarray(jax.tree.leaves(memory.residual)[0])
    np.testing.assert_allclose(z.mean(axis=0), initial.mean(axis=0), atol=1e-6)
  assert strategy is TRIGGERED or not np.allclose(parameters_of(fleet), initial)


def test_a_server_applies_every_pushed_gradient():
  fleet, clock, _ = simulated(parameter_server.strategy(), SLOW, **EVERYTHING)
  expected = START.copy()
  run_round = fleet.run_round

  def checked_round(who, step):
    nonlocal expected
    (i,) = who
    expected = expected - RATE * np.asarray(fleet.state.gradients['x'][i])
    bill = run_round(who, step)
    np.testing.assert_allclose(parameters_of(fleet)[i], expected, atol=1e-5)
    return bill

  fleet.run_round = checked_round
  for _ in range(EVENTS):
    clock.next()
  np.testing.assert_allclose(fleet.center['x'], expected, atol=1e-5)
  assert not np.allclose(expected, START)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'strategy, asynchronous', [(TRIGGERED, True), (all_reduce.strategy(), False)]
)
def test_a_seed_determines_the_timeline(strategy, asynchronous):
  def history(seed):
    machines = (
      EVERYTHING if asynchronous else {'compute': 'gamma', 'spread': 0.5}
    )
    fleet, clock, ledger = simulated(
      strategy, SLOW, seed=seed, asynchronous=asynchronous, **machines
    )
    for _ in range(20):
      clock.next()
    return clock.usage.spans, parameters_of(fleet).tolist(), ledger.to_json()

  assert history(0) == history(0)
  assert history(0) != history(1)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'strategy', [EASGD, PULL, PUSH, PAIRS, GOSGD, TRIGGERED]
)
def test_asynchronous_workers_do_not_wait_for_a_failed_one(strategy):
  _, clock, _ = simulated(strategy, failures=((1, 0.55),), factors=())
  for _ in range(EVENTS):
    clock.next()
  usage = clock.usage
  assert usage.spent_s['wait'].sum() == 0
  assert clock.now > 2
  assert {w for w, kind, since, _ in usage.spans if since > 0.55} == {0, 2}


def test_push_sum_weights_stay_positive_while_nothing_arrives():
  # Worker 0 sends about 140 shares in each of six steps of worker 1.
  fleet, clock, _ = simulated(
    GOSGD, workers=2, optimizer=optax.sgd(1e-3), factors=(1.0, 140.5)
  )
  while clock.now < 6.5 * 140.5 * STEP_S:
    clock.next()
  weight = np.asarray(fleet.state.workers.parameters.weight)
  assert weight.sum() == 2 and weight.min() > 2.0**-42
  assert np.isfinite(parameters_of(fleet)).all()


def test_messages_to_a_failed_worker_are_kept_until_it_returns():
  fleet, clock, _ = simulated(PUSH, failures=((1, 0.55, 1.0),))
  times = [(STEP_S * SPEEDS[i] * k, i) for i in (0, 2) for k in range(1, 30)]
  times += [(STEP_S * SPEEDS[1] * k, 1) for k in range(1, 5)]  # Until 0.548 s.
  times += [(1.0 + STEP_S * SPEEDS[1] * k, 1) for k in range(1, 9)]
  order = [i for _, i in sorted(times)]
  for expected in itertools.islice(pushing(PUSH, order), 32):
    clock.next()
    np.testing.assert_allclose(parameters_of(fleet), expected, atol=1e-5)
  assert clock.now > 1.2


def test_a_returning_worker_computes_from_its_return_on():
  _, clock, _ = simulated(PAIRS, failures=((1, 0.55, 1.0),), factors=())
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
  _, clock, _ = simulated(
    strategy,
    asynchronous=False,
    failures=((1, 0.55),),
    factors=(),
    timeout_s=5.0,
  )
  with pytest.raises(simulate.Stalled, match='worker 1') as stalled:
    for _ in range(EVENTS):
      clock.next()
  # The first to wait has finished step 6 at 0.6 s, or step 8 at 0.8 s.
  waits = 0.8 if strategy.async_exchange else 0.6
  assert stalled.value.time_s == pytest.approx(waits + 5.0)
  assert stalled.value.worker == 1
  clock.give_up()
  assert clock.now == stalled.value.time_s
  assert clock.usage.spent_s['wait'][[0, 2]] == pytest.approx([5.0, 5.0])


def test_silent_rounds_need_no_program_for_the_remaining_workers():
  """Groups of three do not exist among the remaining two workers."""
  inside = local_sgd.strategy(4)
  fleet, clock, _ = simulated(
    hierarchical.strategy(3, 40, inner=inside),
    asynchronous=False,
    failures=((1, 0.55),),
    factors=(),
    timeout_s=5.0,
  )
  x = np.tile(START, (P, 1))
  for step in range(7):  # Exchanges follow the fourth and the eighth step.
    clock.next()
    for i in range(P) if step < 5 else (0, 2):
      x[i] -= RATE * gradient(i, x[i])
    x = np.tile(x.mean(axis=0), (P, 1)) if step == 3 else x
  np.testing.assert_allclose(parameters_of(fleet), x, atol=1e-5)
  with pytest.raises(simulate.Stalled, match='worker 1'):
    clock.next()


def test_a_synchronous_round_waits_for_a_worker_that_returns_in_time():
  _, clock, _ = simulated(
    all_reduce.strategy(),
    asynchronous=False,
    failures=((1, 0.55, 2.0),),
    factors=(),
    timeout_s=5.0,
  )
  for _ in range(8):
    clock.next()
  # Five rounds, one that restarts at 2.0 s, and two more.
  assert clock.now == pytest.approx(2.1 + 0.2)
  assert clock.usage.spent_s['wait'] == pytest.approx([1.5, 0, 1.5])


def test_silent_rounds_do_not_synchronise_workers():
  times = {}
  for period in (1, 5):
    _, clock, _ = simulated(
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


def test_a_late_worker_drops_its_gradient_and_fetches_the_model():
  fleet, clock, ledger = simulated(
    all_reduce.strategy(), asynchronous=False, first=2, factors=(1.0, 1.2, 3.5)
  )
  x = START.copy()
  for _ in range(10):
    clock.next()
    x = x - RATE * (gradient(0, x) + gradient(1, x)) / 2
    np.testing.assert_allclose(parameters_of(fleet)[:2], [x, x], atol=1e-5)
  assert clock.now == pytest.approx(10 * 0.12)  # No round waits for worker 2.
  assert ledger.received[2] and not np.allclose(parameters_of(fleet)[2], START)
  assert ledger.exchanges == 10  # A fetch counts as part of its round.


@pytest.mark.parametrize('latency_s', [0.0, 0.04, 1.0])
def test_all_time_of_a_late_worker_is_accounted_for(latency_s):
  """Also if a round ends before the worker has fetched the model."""
  _, clock, _ = simulated(
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
    assert total[2] > clock.now - 1e-9  # Until the gradient in progress ends.


def test_workers_of_a_round_stay_identical_if_computing_takes_no_time():
  fleet, clock, _ = simulated(
    all_reduce.strategy(),
    network.Link(0.1, 1e6),
    asynchronous=False,
    first=2,
    step_s=0.0,
    failures=((1, 0.5, 2.0),),
  )
  run_round, attended = fleet.run_round, []
  fleet.run_round = lambda who, step: (
    attended.append(who) or run_round(who, step)
  )
  x = START.copy()
  for _ in range(15):
    clock.next()
    x = x - RATE * sum(gradient(i, x) for i in attended[-1]) / 2
    np.testing.assert_allclose(
      parameters_of(fleet)[attended[-1]], [x, x], atol=1e-5
    )
  # Worker 2 has to fetch the model first; rounds wait for it if 1 has failed.
  assert [0, 1] in attended and [0, 2] in attended


def test_rounds_with_backup_workers_continue_without_a_failed_one():
  _, clock, ledger = simulated(
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


@pytest.mark.parametrize('synchronous', [True, False])
def test_a_failed_worker_does_not_compute(synchronous):
  strategy = all_reduce.strategy() if synchronous else PAIRS
  _, clock, _ = simulated(
    strategy,
    asynchronous=not synchronous,
    factors=(),
    failures=((1, 0.55, 2.0),),
  )
  while clock.now < 2.29:
    clock.next()
  spent = clock.usage.spent_s['compute']
  assert spent[1] == pytest.approx(0.8, abs=0.11)


@pytest.mark.parametrize(
  'strategy, words',
  [
    ({'name': 'gossip', 'topology': 'hypercube'}, 'a power of two'),
    (
      {'name': 'hierarchical', 'size': 2, 'period': 1},
      'size 2 does not divide',
    ),
  ],
)
def test_the_first_workers_alone_must_suit_the_strategy(strategy, words):
  config = defaults.get_config()
  config.workers = 4
  config.strategy = resolve.strategy_config(**strategy)
  config.cluster = defaults.cluster(asynchronous=False, first=3)
  with pytest.raises(UserError, match=rf'With cluster\.first=3: .*{words}'):
    dry_run.trace_step(resolve_run(config))
  config.cluster.first = 2
  dry_run.trace_step(resolve_run(config))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'name, memory',
  [('elastic', 'center'), ('power_sgd', 'q'), ('topk', ''), ('dgc', '')],
)
def test_late_workers_may_not_have_memory_that_others_change(name, memory):
  config = defaults.get_config(name)
  config.cluster = defaults.cluster(asynchronous=False, first=7)
  if not memory:
    dry_run.trace_step(resolve_run(config))
    return
  with pytest.raises(UserError, match=rf'cluster\.first.*\({memory}\)'):
    dry_run.trace_step(resolve_run(config))


def test_a_late_worker_joins_the_round_in_progress_when_it_is_done():
  fleet, clock, _ = simulated(
    all_reduce.strategy(),
    asynchronous=False,
    first=2,
    factors=(0.5, 1.0, 1.0),
    slow=((0, 0.0, 0.25, 18.6),),
  )
  x = START.copy()
  # The first gradient of worker 0 takes 0.93 s, the next ones 0.05 s.
  for who in [(1, 2)] * 9 + [(0, 1)] * 3:
    clock.next()
    x = x - RATE * sum(gradient(i, x) for i in who) / 2
    np.testing.assert_allclose(
      parameters_of(fleet)[list(who)], [x, x], atol=1e-5
    )


def test_a_worker_that_missed_a_round_is_not_scored():
  """Its model is that of an earlier round."""
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
def test_a_timeline_restored_from_json_continues_identically():
  make = lambda: simulated(TRIGGERED, SLOW, **EVERYTHING)
  fleet, clock, _ = make()
  restored_fleet, restored_clock, _ = make()
  for _ in range(15):
    clock.next()
  restored_clock.from_json(json.loads(json.dumps(clock.to_json())))
  restored_fleet.state = jax.tree.map(jnp.array, fleet.state)
  for _ in range(25):
    clock.next()
    restored_clock.next()
    assert restored_clock.now == clock.now
  np.testing.assert_array_equal(
    parameters_of(restored_fleet), parameters_of(fleet)
  )
  assert json.dumps(restored_clock.to_json()) == json.dumps(clock.to_json())


@pytest.mark.exhaustive
def test_a_worker_may_be_read_twice_in_an_exchange():
  """With three workers, one of three pulls draws a worker again."""
  strategy = pull_gossip.strategy(pulls=3, look_ahead=0.0)
  runner, timeline, _ = simulated(strategy)
  assert len({*drawn_partners(strategy, 0, 0)}) < 3
  for _ in range(2 * EVENTS // 3):
    timeline.next()
  assert np.isfinite(parameters_of(runner)).all()


@pytest.mark.parametrize('back', [(), (2.0,)])
def test_a_failed_worker_is_not_scored(back):
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
  assert found.worker0_loss is None and found.worker0_accuracy is None


def test_a_stalled_run_records_its_last_scores_before_the_time_out():
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


def test_time_does_not_run_backwards_if_a_round_times_out():
  """The round that waits follows silent ones, which let workers drift apart."""
  _, clock, _ = simulated(
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


def test_time_does_not_run_backwards_if_the_slowest_worker_is_lost():
  _, clock, _ = simulated(
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
  assert clock.behind == {0}  # Although it is lost only at 1.05 s.


def test_a_run_in_virtual_time_whose_loss_is_not_finite_has_diverged():
  config = defaults.get_config('pairwise_gossip')
  config.update(workers=2, steps=30, cluster=defaults.cluster())
  config.optimizer.update(learning_rate=1e30, warmup_steps=0)
  with pytest.raises(Diverged, match='NaN or Inf after step'):
    [*simulate.simulate(resolve_run(config))]


def test_an_unknown_executor_is_refused_in_virtual_time_too():
  config = defaults.get_config()
  config.cluster = defaults.cluster(asynchronous=False)
  config.executor = 'vmpa'
  with pytest.raises(UserError, match=r"executor=vmpa .*'vmap'"):
    resolve_run(config)
