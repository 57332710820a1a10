"""Events in virtual time against times by hand; nothing is trained here."""

import json
import math

import numpy as np
import pytest

from gossipjax import async_exchange, network
from gossipjax.aggregator import AsyncExchange
from gossipjax.comparison.variant import check
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.simulation.cluster import cluster
from gossipjax.simulation.compute_times import ComputeTimes
from gossipjax.simulation.events import Asynchronous
from gossipjax.simulation.rounds import Synchronous
from gossipjax.simulation.shared_link import SharedLink
from gossipjax.simulation.timeline import Stalled
from gossipjax.traffic import Count, Traffic
from gossipjax.training import machines

SIZE = 300  # Bytes of a model.


class Recorder:
  """A runner that trains nothing and records the workers of each round."""

  def __init__(self, kind):
    self.kind, self.rounds = kind, []

  def start(self, worker, step):
    pass

  def round_traffic(self, who, step):
    first = np.array([1] + [0] * (len(who) - 1))
    others = 1 - first
    out, into = {
      async_exchange.VISIT: (first, first),
      async_exchange.READ: (others, first),
      async_exchange.PUSH: (first, others),
      async_exchange.MEET: (first, others),
      None: (first + others, first + others),
    }[self.kind]
    if len(who) == 1 and self.kind not in (async_exchange.VISIT, None):
      out = into = 0 * first
    return Traffic(
      *(
        Count.of(x)
        for x in (
          SIZE * out,
          SIZE * into,
          out,
          1 * (out + into > 0),
          SIZE * np.maximum(out, into),
        )
      )
    )

  def run_round(self, who, step):
    self.rounds.append(list(who))
    return self.round_traffic(who, step)

  run_silent_round = run_round

  def fetch(self, worker, giver, dry_run):
    return self.round_traffic([worker, giver], 0)


def asynchronous(
  kind,
  link,
  workers=3,
  draw=lambda worker, rng: (),
  fair=False,
  shards=1,
  serial=True,
  **machines,
):
  compute_times = ComputeTimes(
    cluster(workers, 9, FULL, step_s=1.0, **machines), workers, 0
  )
  runner = Recorder(kind)
  return runner, Asynchronous(
    compute_times,
    link,
    AsyncExchange(None, kind, draw),
    runner,
    fair,
    shards,
    serial,
  )


def starts(timeline, steps):
  """When each worker began to compute each of its first gradients."""
  while timeline.rounds < steps + 2:
    timeline.next()
  found = {}
  for worker, kind, since, _ in timeline.usage.spans:
    if kind == 'compute':
      found.setdefault(worker, []).append(since)
  return [pytest.approx(found[w][:steps]) for w in sorted(found)]


FULL = network.Link(0.1, 1000.0)  # 0.3 s for a model.
HALF = network.Link(0.1, 1000.0, full_duplex=False)


@pytest.mark.parametrize(
  'link, options, expected',
  [
    # Uploads from 1.0 on, one at a time; each download follows at once.
    (FULL, {}, [1.8, 2.1, 2.4]),
    # All three uploads, and then the first download, share a link.
    (HALF, {}, [2.3, 2.6, 2.9]),
    # All at a third of the speed: uploads until 1.9, downloads until 2.9.
    (FULL, {'fair': True}, [3.0, 3.0, 3.0]),
    # Three links for three workers.
    (FULL, {'shards': 3}, [1.8, 1.8, 1.8]),
    (FULL, {'fair': True, 'shards': 3}, [1.8, 1.8, 1.8]),
  ],
)
def test_a_servers_link_is_shared_as_the_config_says(link, options, expected):
  _, timeline = asynchronous(async_exchange.VISIT, link, **options)
  begun = starts(timeline, 2)
  assert [[0.0, at] for at in expected] == begun


@pytest.mark.parametrize(
  'failure, begun, rounds',
  [
    # Worker 2 is third in the queue, from 1.0 s on; its turn would be at 1.6 s.
    ((2, 1.2), [0.0], [[0], [1], [0], [1]]),
    # It computes again from 1.5 s on, and has the link to itself at 2.5 s.
    ((2, 1.2, 1.5), [0.0, 1.5, 3.3], [[0], [1], [2], [0]]),
    # An upload that has begun goes on.
    ((2, 1.7), [0.0], [[0], [1], [2], [0]]),
  ],
)
def test_an_upload_that_has_not_begun_is_lost_with_its_worker(
  failure, begun, rounds
):
  runner, timeline = asynchronous(
    async_exchange.VISIT, FULL, failures=(failure,)
  )
  while timeline.now < 6.0:
    timeline.next()
  assert runner.rounds[:4] == rounds
  assert starts_of(timeline, 2)[: len(begun)] == pytest.approx(begun)


def test_workers_that_arrive_at_the_same_instant_share_one_round():
  runner, timeline = asynchronous(
    async_exchange.VISIT, network.Link(0.0, math.inf)
  )
  for _ in range(4):
    timeline.next()
  assert runner.rounds == [[0, 1, 2]] * 4 and timeline.now == 4.0


@pytest.mark.parametrize(
  'serial, expected', [(True, [1.4, 1.8, 1.0]), (False, [1.4, 1.4, 1.0])]
)
@pytest.mark.parametrize(
  'kind', [async_exchange.READ, async_exchange.PUSH, async_exchange.MEET]
)
def test_a_serial_receivers_link_serves_one_at_a_time(kind, serial, expected):
  # Workers 0 and 1 draw worker 2, which draws nobody.
  _, timeline = asynchronous(
    kind,
    FULL,
    serial=serial,
    draw=lambda worker, rng: (2,) if worker < 2 else (),
  )
  begun = starts(timeline, 2)
  assert [[0.0, at] for at in expected] == begun


def test_the_longest_waiting_worker_is_served_first_also_in_a_tie():
  # Worker i computes 1 s, then meets i + 1 for 1 s: there is always a queue.
  runner, timeline = asynchronous(
    async_exchange.MEET,
    network.Link(0.0, SIZE),
    draw=lambda worker, rng: ((worker + 1) % 3,),
  )
  while timeline.now < 30:
    timeline.next()
  starters = [who[0] for who in runner.rounds]
  assert [starters.count(worker) for worker in range(3)] == [10, 10, 9]


@pytest.mark.parametrize(
  'kind, expected',
  [
    (async_exchange.READ, 1.0),  # Reads what was published when it began.
    (async_exchange.PUSH, 1.4),
    (async_exchange.MEET, 1.4),  # Not before the data has arrived.
    (async_exchange.VISIT, 1.4),  # After the upload, before the download.
  ],
)
def test_an_exchange_takes_effect_as_early_as_its_kind_allows(kind, expected):
  runner, timeline = asynchronous(
    kind,
    FULL,
    draw=lambda worker, rng: (2,) if (worker == 0) else (),
    factors=(1.0, 9.0, 9.0),
  )
  timeline.next()
  assert runner.rounds == [[0] if kind == async_exchange.VISIT else [0, 2]]
  assert timeline.now == pytest.approx(expected)


def test_compute_wait_and_transfer_seconds_add_up_to_all_time():
  _, timeline = asynchronous(
    async_exchange.READ,
    FULL,
    5,
    async_exchange.uniform_peers(5),
    compute='gamma',
    spread=0.4,
    stragglers=(1,),
  )
  for _ in range(100):
    timeline.next()
  total = sum(timeline.usage.spent_s.values())
  # Except for a gradient or an exchange that is not finished.
  assert (timeline.now - total < 4).all() and (total <= timeline.now + 1).all()
  assert (timeline.usage.spent_s['wait'] > 0).all()
  assert 0 < timeline.utilisation <= 1


def test_the_link_of_a_server_is_busy_while_it_carries_data():
  _, timeline = asynchronous(async_exchange.VISIT, FULL)
  timeline.next()  # At 1.4 s; uploads have gone on since 1.0 s.
  assert timeline.utilisation == pytest.approx(0.4 / 1.4)


def test_the_staleness_of_a_visit_counts_the_visits_in_between():
  _, timeline = asynchronous(
    async_exchange.VISIT, FULL, factors=(1.0, 1.0, 10.0), shards=3
  )
  while timeline.usage.spent_s['compute'][2] == 0:
    timeline.next()
  timeline.usage.take_staleness()
  while timeline.usage.staleness[2] < 5:
    timeline.next()
  # In 10 s the others, at 1.8 s a step, visit together five or six times.
  assert timeline.usage.staleness[2] in (5, 6)


def test_a_step_between_two_visits_is_not_stale():
  runner, timeline = asynchronous(
    async_exchange.VISIT, FULL, 2, factors=(1.0, 3.0), shards=2
  )
  bill_of, samples = runner.round_traffic, []
  runner.round_traffic = lambda who, step: bill_of(who, step) * (step % 2 == 0)
  timeline.usage.add_staleness = samples.append
  while sum([1] in [who] for who in runner.rounds) < 3:
    timeline.next()
  assert all(len(who) == 1 for who in runner.rounds)
  of_worker_1 = [
    stale
    for (who,), stale in zip(runner.rounds, samples, strict=True)
    if who == 1
  ]
  # A visit, a silent step, and a visit after visits of worker 0.
  assert of_worker_1[0] > 0 == of_worker_1[1] < of_worker_1[2]


def test_a_worker_that_fails_while_another_waits_for_it_is_left_out():
  # Workers 0 and 2 draw 1 at 1 s; 0 meets it until 2 s, and 1 fails at 1.5 s.
  runner, timeline = asynchronous(
    async_exchange.MEET,
    network.Link(0.0, SIZE),
    draw=lambda worker, rng: (1,) if worker != 1 else (),
    failures=((1, 1.5, 9.0),),
  )
  while timeline.now < 2.5:
    timeline.next()
  assert runner.rounds[:3] == [[1], [0, 1], [2]]


@pytest.mark.parametrize(
  'kind', [async_exchange.MEET, async_exchange.READ, async_exchange.PUSH]
)
def test_an_outage_within_a_wait_loses_the_gradient_that_waits(kind):
  """As above, but worker 2 is down from 1.5 to 1.7 s, and computes again."""
  _, timeline = asynchronous(
    kind,
    network.Link(0.0, SIZE),
    draw=lambda worker, rng: (1,) if worker != 1 else (),
    failures=((2, 1.5, 1.7),),
  )
  while timeline.now < 4:
    timeline.next()
  computing = [
    pytest.approx((since, until))
    for worker, what, since, until in timeline.usage.spans
    if (worker, what) == (2, 'compute')
  ]
  assert computing[:2] == [(0.0, 1.0), (1.7, 2.7)]
  began = min(
    since
    for worker, what, since, _ in timeline.usage.spans
    if (worker, what) == (2, 'transfer')
  )
  assert began >= 2.7


def test_a_dead_worker_uses_no_gradient_in_a_silent_round():
  """Worker 2 dies while it waits for worker 1, which then dies, too."""
  runner, timeline = asynchronous(
    async_exchange.MEET,
    network.Link(0.0, SIZE),
    draw=lambda worker, rng: (1,) if worker != 1 else (),
    factors=(1.0, 9.0, 1.0),
    failures=((2, 1.5), (1, 1.7)),
  )
  while timeline.now < 9:
    timeline.next()
  assert not any(2 in who for who in runner.rounds)


def test_a_worker_that_fails_while_it_waits_begins_no_transfer():
  # As above, but worker 2 fails at 1.5 s.
  runner, timeline = asynchronous(
    async_exchange.MEET,
    network.Link(0.0, SIZE),
    draw=lambda worker, rng: (1,) if worker != 1 else (),
    failures=((2, 1.5),),
  )
  while timeline.now < 9:
    timeline.next()
  assert not any(2 in who for who in runner.rounds)


@pytest.mark.parametrize('fast', range(3))
def test_simultaneous_visits_of_one_step_share_a_round(fast):
  factors = tuple(1.0 if i == fast else 2.0 for i in range(3))
  link = network.Link(0.0, math.inf)
  runner, timeline = asynchronous(async_exchange.VISIT, link, factors=factors)
  while timeline.now < 2:
    timeline.next()
  slow = [i for i in range(3) if i != fast]
  assert runner.rounds == [[fast], slow, [fast]]


def test_a_visitors_own_link_is_busy_too():
  _, timeline = asynchronous(
    async_exchange.VISIT, network.Link(0.0, SIZE), 3, shards=300
  )
  for _ in range(30):
    timeline.next()
  # 1 s of computing, 1 s up, 1 s down.
  assert timeline.utilisation == pytest.approx(2 / 3, rel=0.1)


@pytest.mark.parametrize('serial', [True, False])
@pytest.mark.parametrize(
  'kind',
  [
    async_exchange.READ,
    async_exchange.PUSH,
    async_exchange.MEET,
    async_exchange.VISIT,
  ],
)
def test_no_link_is_busy_for_longer_than_the_elapsed_time(kind, serial):
  _, timeline = asynchronous(
    kind,
    network.Link(0.0, SIZE / 3),  # 3 s for a model, after 1 s of computing.
    draw=lambda worker, rng: ((worker + 1) % 3,),
    serial=serial,
    shards=3,
  )
  for _ in range(20):
    timeline.next()
    assert 0 <= timeline.utilisation <= 1
  assert timeline.utilisation > 0.6


@pytest.mark.parametrize(
  'kind, spread',
  [('constant', 0.0), ('uniform', 0.5), ('lognormal', 0.5), ('gamma', 0.5)],
)
def test_compute_times_have_the_configured_mean(kind, spread):
  compute_times = ComputeTimes(
    cluster(2, 9, FULL, compute=kind, spread=spread, step_s=0.2), 2, 0
  )
  times = [
    compute_times.seconds(w, t, 0.0) for w in range(2) for t in range(2_000)
  ]
  assert np.mean(times) == pytest.approx(0.2, rel=0.03)
  assert (np.ptp(times) > 0) == (spread > 0) and min(times) > 0


def test_a_straggler_sleeps_and_a_slow_spell_ends():
  compute_times = ComputeTimes(
    cluster(
      3,
      9,
      FULL,
      step_s=1.0,
      factors=(1.0, 2.0, 1.0),
      stragglers=(1,),
      sleep_s=0.3,
      slow=((2, 5.0, 6.0, 4.0),),
    ),
    3,
    0,
  )
  # A worker that computes for twice as long sleeps as long as others.
  slept = [compute_times.seconds(1, t, 0.0) - 2.0 for t in range(1_000)]
  assert 0 < min(slept) < max(slept) < 0.3
  assert np.mean(slept) == pytest.approx(0.15, rel=0.1)
  assert [compute_times.seconds(2, 0, at) for at in (4.9, 5.0, 5.9, 6.0)] == [
    1,
    4,
    4,
    1,
  ]
  assert compute_times.seconds(0, 0, 5.5) == 1.0


def test_a_trace_is_read_and_steps_beyond_its_end_are_refused(tmp_path):
  path = tmp_path / 'trace.csv'
  path.write_text('0.1, 0.2\n0.3, 0.4\n')
  compute_times = ComputeTimes(
    cluster(2, 2, FULL, compute='trace', trace=str(path)), 2, 0
  )
  assert [
    compute_times.seconds(w, t, 0.0) for w in range(2) for t in range(2)
  ] == [0.1, 0.3, 0.2, 0.4]
  with pytest.raises(UserError, match='has 2 steps, but worker 1 takes more'):
    compute_times.seconds(1, 2, 0.0)
  with pytest.raises(UserError, match='has 2 lines; steps=3'):
    cluster(2, 3, FULL, compute='trace', trace=str(path))
  path.write_text('0.1\n-0.2\n')
  with pytest.raises(UserError, match='not from 0'):
    cluster(2, 2, FULL, compute='trace', trace=str(path))
  path.write_text('0.1\nsoon\n')
  with pytest.raises(UserError, match='each line has to contain numbers'):
    cluster(2, 2, FULL, compute='trace', trace=str(path))


@pytest.mark.parametrize('kind', [async_exchange.MEET, async_exchange.VISIT])
@pytest.mark.parametrize('failures', [(), ((1, 5.0),)])
def test_a_trace_ends_a_run_only_if_a_gradient_is_missing(
  kind, failures, tmp_path
):
  path = tmp_path / 'trace'
  path.write_text('1.0\n' * 9)
  runner, timeline = asynchronous(
    kind,
    FULL,
    draw=lambda worker, rng: ((worker + 1) % 3,),
    compute='trace',
    trace=str(path),
    failures=failures,
  )
  if failures:
    with pytest.raises(UserError, match='has 9 steps, but worker 0 takes more'):
      while timeline.rounds < 9:
        timeline.next()
    return
  while timeline.rounds < 9:
    timeline.next()
  starters = [who[0] for who in runner.rounds]
  assert [starters.count(worker) for worker in range(3)] == [9, 9, 9]


@pytest.mark.parametrize(
  'wrong, message',
  [
    ({'step_s': -0.1}, 'step_s must be at least 0'),
    ({'step_s': math.nan}, 'step_s must be at least 0'),
    ({'sleep_s': -1.0}, 'sleep_s must be at least 0'),
    ({'latency_s': -1.0}, 'latency_s=-1.0 .* at least 0'),
    ({'bytes_per_s': 0.0}, 'bytes_per_s=0.0 .* above 0'),
    ({'spread': -1.0}, 'spread must be at least 0'),
    ({'timeout_s': math.inf}, 'timeout_s=inf is not finite'),
    ({'compute': 'uniform', 'spread': 1.5}, 'negative times'),
    ({'compute': 'normal'}, 'compute=normal is unknown'),
    ({'spread': 0.5}, 'spread=0.5 has no effect with compute=constant'),
    ({'trace': 'times.txt'}, 'needs cluster.compute=trace'),
    ({'compute': 'trace', 'trace': 'nowhere'}, "'nowhere' is not a file"),
    ({'server': 'lifo'}, 'server=lifo is unknown'),
    ({'shards': 0}, 'shards must be at least 1'),
    ({'factors': (1.0, 2.0)}, 'each of 3 workers'),
    ({'factors': (1.0, -2.0, 1.0)}, 'above 0'),
    ({'stragglers': (3,)}, 'no worker 3 among 0 to 2'),
    ({'slow': ((0, -1.0, 2.0, 2.0),)}, 'slow: '),
    ({'failures': ((0, -1.0),)}, 'failures: '),
    ({'failures': ((0, 2.0, 1.0),)}, 'failures: '),
    ({'failures': ((0, 1.0), (1, 1.0), (2, 5.0))}, 'stops every worker'),
    (
      {'failures': ((0, 1.0), (1, 1.0), (2, 5.0, math.inf))},
      'stops every worker',
    ),
    ({'first': 2}, 'asynchronous=False'),
    ({'first': 4, 'asynchronous': False}, 'first=4 is more than workers=3'),
    ({'first': 1, 'asynchronous': False}, 'first=1: .* 0 .* or at least 2'),
    ({'target_score': 'loss'}, 'target_score=loss needs cluster.target,'),
    ({'target_accuracy': 80.0}, 'at most 1'),
  ],
)
def test_impossible_cluster_settings_are_refused_by_name(wrong, message):
  with pytest.raises(UserError, match=message):
    cluster(3, 10, FULL, **wrong)


INSTANT = {'step_s': 0.0, 'latency_s': 0.0, 'bytes_per_s': math.inf}


@pytest.mark.parametrize(
  'strategy, changes, message',
  [
    ('all_reduce', {}, 'needs all workers at once; set cluster.asynchronous'),
    (
      'local_sgd',
      {'cluster': {'asynchronous': False, 'first': 7}},
      'first=7 needs .* nothing in step 0',
    ),
    ('gossip', {'cluster': INSTANT}, 'no time passes'),
    ('gossip', {'cluster': {'step_s': 0.0}}, 'step_s=0: .* above 0'),
    ('elastic', {'workers': 4000}, 'cannot be shared by 4000'),
    ('elastic', {'cluster': {'stragglers': (9,)}}, 'no worker 9'),
  ],
)
def test_impossible_runs_are_refused_before_they_start(
  strategy, changes, message
):
  config = defaults.get_config(strategy)
  config.cluster = defaults.cluster()
  config.update(changes)
  with pytest.raises(UserError, match=message):
    check('run', config)


@pytest.mark.parametrize(
  'key, value',
  [
    ('latency_s', 5.0),
    ('bytes_per_s', 10.0),
    ('full_duplex', False),
    ('serial', False),
    ('server', 'fair'),
    ('timeout_s', 9.0),
  ],
)
def test_an_engine_refuses_settings_that_only_virtual_time_has(key, value):
  config = defaults.get_config('gossip')
  config.engine = 'ray'
  strategy = resolve.strategy(config.strategy)
  config.cluster = defaults.cluster(shards=2, sleep_s=0.1, step_s=0.0)
  assert machines.of_config(config, network.Link(0.0, math.inf), strategy)
  config.cluster[key] = value
  with pytest.raises(UserError, match=f'{key}={value} has no effect .*ray'):
    machines.of_config(config, FULL, strategy)


def test_a_round_that_waits_for_workers_lost_for_good_times_out():
  compute_times = ComputeTimes(
    cluster(
      3, 9, FULL, step_s=1.0, asynchronous=False, failures=((0, 2.5), (1, 2.7))
    ),
    3,
    0,
  )
  timeline = Synchronous(compute_times, FULL, Recorder(None), timeout_s=60.0)
  timeline.next()
  timeline.next()  # Ends at 2.8 s; worker 2 is ready for the next at 3.8 s.
  with pytest.raises(Stalled, match='waited for worker 1'):
    timeline.next()


def synchronous(runner, workers=3, timeout_s=math.inf, **given):
  given = dict(step_s=1.0, asynchronous=False) | given
  found = cluster(workers, 9, FULL, **given)
  times = ComputeTimes(found, workers, 0)
  return Synchronous(times, FULL, runner, found.first, timeout_s)


def test_a_worker_that_fails_while_it_waits_computes_again():
  """Worker 0 is ready at 1 s and down from 2 s on; worker 1 is ready at 4 s."""
  timeline = synchronous(
    Recorder(None), factors=(1.0, 4.0, 1.0), failures=((0, 2.0, 3.5),)
  )
  timeline.next()
  spent = timeline.usage.spent_s['wait']
  assert spent[[0, 1, 2]] == pytest.approx([0.0, 0.5, 3.5])
  timeline = synchronous(
    Recorder(None), factors=(1.0, 4.0, 1.0), failures=((0, 2.0, 2.5),)
  )
  timeline.next()
  assert timeline.usage.spent_s['wait'][0] == pytest.approx(0.5)
  # An outage that begins with the round, at 4 s, does not hit it.
  timeline = synchronous(
    Recorder(None), factors=(1.0, 4.0, 1.0), failures=((0, 4.0, 4.5),)
  )
  timeline.next()
  assert timeline.usage.spent_s['wait'][0] == pytest.approx(3.0)


def test_an_outage_after_the_time_out_does_not_move_it():
  for later in ((), ((1, 1000.0, 1001.0),)):
    timeline = synchronous(
      Recorder(None), failures=((0, 0.5), *later), timeout_s=10.0
    )
    with pytest.raises(Stalled) as stalled:
      timeline.next()
    assert stalled.value.time_s == pytest.approx(11.0)


def test_a_worker_that_failed_for_good_stays_out_of_silent_rounds(tmp_path):
  """Short steps after the long, lost one would end before the failure."""

  class Silent(Recorder):
    def round_traffic(self, who, step):
      return super().round_traffic(who, step) * False

    def run_silent_round(self, who, step):
      self.rounds.append(list(who))

  path = tmp_path / 'trace.csv'
  path.write_text('1,1,1\n9,1,1\n' + '1,1,1\n' * 7)
  given = dict(compute='trace', trace=str(path), failures=((0, 5.0),))
  timeline = synchronous(runner := Silent(None), **given)
  for _ in range(6):
    timeline.next()
  assert runner.rounds == [[0, 1, 2]] + [[1, 2]] * 5
  assert timeline.now == pytest.approx(6.0)
  again = synchronous(runner, **given)
  again.from_json(json.loads(json.dumps(timeline.to_json())))
  assert again.to_json() == timeline.to_json()


def test_a_shared_link_carries_no_more_than_its_capacity():
  rng = np.random.default_rng(0)
  for fair in (False, True):
    link, now, work, out = SharedLink(2, fair), 0.0, 0.0, []
    for who in range(40):
      now += rng.exponential(0.3)
      while link.next() <= now:
        out += link.pop(link.next())
      seconds = rng.exponential(0.5)
      link.add(now, who, seconds)
      work += seconds
    while link.next() < math.inf:
      now = link.next()
      out += link.pop(now)
    assert sorted(out) == list(range(40))
    assert link.busy_until(now) * 2 == pytest.approx(work)
    assert link.busy_until(now) < now


def test_a_visit_takes_two_transfers_and_two_latencies():
  _, timeline = asynchronous(async_exchange.VISIT, FULL, shards=3)
  while timeline.rounds < 2:
    timeline.next()
  spent = timeline.usage.spent_s
  assert spent['transfer'] == pytest.approx([0.8] * 3)
  assert spent['wait'] == pytest.approx([0.0] * 3, abs=1e-9)


def test_staleness_counts_the_meetings_since_the_gradient_began():
  # 0 meets 1 every 1.4 s; 1 begins at 0 s and is ready at 5 s and at 10 s.
  _, timeline = asynchronous(
    async_exchange.MEET,
    FULL,
    2,
    draw=lambda worker, rng: (1,) if worker == 0 else (),
    factors=(1.0, 5.0),
  )
  for ready, expected in ((5, (3 / 4, 3)), (10, (4 / 5, 4))):
    while timeline.usage.spent_s['compute'][1] < ready:
      timeline.next()
    assert timeline.usage.take_staleness() == expected


@pytest.mark.parametrize(
  'kind, deviation',
  [
    ('uniform', 0.5 / 3**0.5),
    ('lognormal', (math.exp(0.25) - 1) ** 0.5),
    ('gamma', 0.5),
  ],
)
def test_compute_times_have_the_configured_deviation(kind, deviation):
  machines = cluster(2, 9, FULL, compute=kind, spread=0.5, step_s=0.2)
  times = ComputeTimes(machines, 2, 0)
  took = [times.seconds(w, t, 0.0) for w in range(2) for t in range(2_000)]
  assert np.std(took) == pytest.approx(0.2 * deviation, rel=0.06)


def test_links_are_busy_only_while_a_round_carries_data():
  timeline = synchronous(Recorder(None))
  for _ in range(2):
    timeline.next()  # 1 s of computing, 0.1 s of latency, 0.3 s of bytes.
  assert timeline.utilisation == pytest.approx(0.3 / 1.4)


def test_workers_fetch_the_model_one_after_the_other():
  factors = (1.0, 1.0, 1.2, 1.3)
  timeline = synchronous(Recorder(None), workers=4, first=2, factors=factors)
  timeline.next()  # Until 1.4 s; workers 2 and 3 are late.
  timeline.next()  # A model takes 0.4 s.
  assert starts_of(timeline, 2) == pytest.approx([0.0, 1.8])
  assert starts_of(timeline, 3) == pytest.approx([0.0, 2.2])
  # Worker 0 gave the model to both, and took part in two rounds: 0.3 s each.
  assert timeline.utilisation == pytest.approx(4 * 0.3 / 2.8)


def starts_of(timeline, worker):
  mine = (span for span in timeline.usage.spans if span[0] == worker)
  return [since for _, kind, since, _ in mine if kind == 'compute']
