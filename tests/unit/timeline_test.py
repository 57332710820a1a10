"""Who finishes when, by hand; nothing is learned here."""

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


class Told:
  """A runner that learns nothing and writes down who came."""

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


def clock(
  way,
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
  runner = Told(way)
  return runner, Asynchronous(
    compute_times,
    link,
    AsyncExchange(None, way, draw),
    runner,
    fair,
    shards,
    serial,
  )


def starts(timeline, steps):
  """When each worker began to compute its first so many gradients."""
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
    # Up from 1.0 in turn; down as soon as they have arrived.
    (FULL, {}, [1.8, 2.1, 2.4]),
    # All three ways up, and then the first way down, share a link.
    (HALF, {}, [2.3, 2.6, 2.9]),
    # All at a third of the speed: up until 1.9, down until 2.9.
    (FULL, {'fair': True}, [3.0, 3.0, 3.0]),
    # Three links for three.
    (FULL, {'shards': 3}, [1.8, 1.8, 1.8]),
    (FULL, {'fair': True, 'shards': 3}, [1.8, 1.8, 1.8]),
  ],
)
def test_a_servers_link_is_shared_as_the_config_says(link, options, expected):
  _, timeline = clock(async_exchange.VISIT, link, **options)
  begun = starts(timeline, 2)
  assert [[0.0, at] for at in expected] == begun


@pytest.mark.parametrize(
  'failure, begun, rounds',
  [
    # Worker 2 is third in the queue, from 1.0 s on; its turn would be at 1.6 s.
    ((2, 1.2), [0.0], [[0], [1], [0], [1]]),
    # It computes again from 1.5 s on, and has the link for itself at 2.5 s.
    ((2, 1.2, 1.5), [0.0, 1.5, 3.3], [[0], [1], [2], [0]]),
    # An upload that has begun goes on.
    ((2, 1.7), [0.0], [[0], [1], [2], [0]]),
  ],
)
def test_an_upload_that_has_not_begun_is_lost_with_its_worker(
  failure, begun, rounds
):
  runner, timeline = clock(async_exchange.VISIT, FULL, failures=(failure,))
  while timeline.now < 6.0:
    timeline.next()
  assert runner.rounds[:4] == rounds
  assert starts_of(timeline, 2)[: len(begun)] == pytest.approx(begun)


def test_who_arrives_at_the_same_instant_makes_one_round():
  runner, timeline = clock(async_exchange.VISIT, network.Link(0.0, math.inf))
  for _ in range(4):
    timeline.next()
  assert runner.rounds == [[0, 1, 2]] * 4 and timeline.now == 4.0


@pytest.mark.parametrize(
  'serial, expected', [(True, [1.4, 1.8, 1.0]), (False, [1.4, 1.4, 1.0])]
)
@pytest.mark.parametrize(
  'way', [async_exchange.READ, async_exchange.PUSH, async_exchange.MEET]
)
def test_a_receivers_link_takes_one_at_a_time(way, serial, expected):
  # Workers 0 and 1 want worker 2, who wants nobody.
  _, timeline = clock(
    way,
    FULL,
    serial=serial,
    draw=lambda worker, rng: (2,) if worker < 2 else (),
  )
  begun = starts(timeline, 2)
  assert [[0.0, at] for at in expected] == begun


def test_who_has_waited_longest_is_served_first_also_at_the_same_time():
  # Worker i meets i + 1, 1 s after 1 s of computing: there is always a queue.
  runner, timeline = clock(
    async_exchange.MEET,
    network.Link(0.0, SIZE),
    draw=lambda worker, rng: ((worker + 1) % 3,),
  )
  while timeline.now < 30:
    timeline.next()
  starters = [who[0] for who in runner.rounds]
  assert [starters.count(worker) for worker in range(3)] == [10, 10, 9]


@pytest.mark.parametrize(
  'way, expected',
  [
    (async_exchange.READ, 1.0),  # What was published when the transfer began.
    (async_exchange.PUSH, 1.4),
    (async_exchange.MEET, 1.4),  # Nothing before it has arrived.
    (async_exchange.VISIT, 1.4),
  ],
)  # Up, but not yet down again.
def test_an_exchange_takes_effect_when_it_can(way, expected):
  runner, timeline = clock(
    way,
    FULL,
    draw=lambda worker, rng: (2,) if (worker == 0) else (),
    factors=(1.0, 9.0, 9.0),
  )
  timeline.next()
  assert runner.rounds == [[0] if way == async_exchange.VISIT else [0, 2]]
  assert timeline.now == pytest.approx(expected)


def test_the_hours_of_a_worker_are_all_of_its_time():
  _, timeline = clock(
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
  # But for what each is in the midst of: a gradient, an exchange.
  assert (timeline.now - total < 4).all() and (total <= timeline.now + 1).all()
  assert (timeline.usage.spent_s['wait'] > 0).all()
  assert 0 < timeline.utilisation <= 1


def test_the_link_of_a_server_is_busy_while_it_carries():
  _, timeline = clock(async_exchange.VISIT, FULL)
  timeline.next()  # At 1.4 s; one upload took from 1.0 to 1.3, one goes on.
  assert timeline.utilisation == pytest.approx(0.4 / 1.4)


def test_a_visitor_is_as_stale_as_the_visits_in_between():
  _, timeline = clock(
    async_exchange.VISIT, FULL, factors=(1.0, 1.0, 10.0), shards=3
  )
  while timeline.usage.spent_s['compute'][2] == 0:
    timeline.next()
  timeline.usage.take_staleness()
  while timeline.usage.staleness[2] < 5:
    timeline.next()
  # 10 s, in which the others, 1.8 s a step, come together five or six times.
  assert timeline.usage.staleness[2] in (5, 6)


def test_a_step_between_two_visits_is_not_stale():
  runner, timeline = clock(
    async_exchange.VISIT, FULL, 2, factors=(1.0, 3.0), shards=2
  )
  visited, samples = runner.round_traffic, []
  runner.round_traffic = lambda who, step: visited(who, step) * (step % 2 == 0)
  timeline.usage.add_staleness = samples.append
  while sum([1] in [who] for who in runner.rounds) < 3:
    timeline.next()
  assert all(len(who) == 1 for who in runner.rounds)
  of_last = [
    stale
    for (who,), stale in zip(runner.rounds, samples, strict=True)
    if who == 1
  ]
  # A visit, a silent step, and a visit after those of worker 0.
  assert of_last[0] > 0 == of_last[1] < of_last[2]


def test_who_is_lost_while_another_waits_for_it_does_not_come():
  # 0 and 2 want 1 at 1 s; 0 has it until 2 s, and 1 is lost at 1.5 s.
  runner, timeline = clock(
    async_exchange.MEET,
    network.Link(0.0, SIZE),
    draw=lambda worker, rng: (1,) if worker != 1 else (),
    failures=((1, 1.5, 9.0),),
  )
  while timeline.now < 2.5:
    timeline.next()
  assert runner.rounds[:3] == [[1], [0, 1], [2]]


def test_who_is_lost_while_it_waits_begins_no_transfer():
  # As above, but it is 2 that is lost at 1.5 s.
  runner, timeline = clock(
    async_exchange.MEET,
    network.Link(0.0, SIZE),
    draw=lambda worker, rng: (1,) if worker != 1 else (),
    failures=((2, 1.5),),
  )
  while timeline.now < 9:
    timeline.next()
  assert not any(2 in who for who in runner.rounds)


@pytest.mark.parametrize('fast', range(3))
def test_visitors_of_an_instant_share_a_round_whatever_their_numbers(fast):
  factors = tuple(1.0 if i == fast else 2.0 for i in range(3))
  link = network.Link(0.0, math.inf)
  runner, timeline = clock(async_exchange.VISIT, link, factors=factors)
  while timeline.now < 2:
    timeline.next()
  slow = [i for i in range(3) if i != fast]
  assert runner.rounds == [[fast], slow, [fast]]


def test_a_visitors_own_link_is_busy_too():
  _, timeline = clock(
    async_exchange.VISIT, network.Link(0.0, SIZE), 3, shards=300
  )
  for _ in range(30):
    timeline.next()
  # 1 s of computing, 1 s up, 1 s down.
  assert timeline.utilisation == pytest.approx(2 / 3, rel=0.1)


@pytest.mark.parametrize('serial', [True, False])
@pytest.mark.parametrize(
  'way',
  [
    async_exchange.READ,
    async_exchange.PUSH,
    async_exchange.MEET,
    async_exchange.VISIT,
  ],
)
def test_no_link_carries_data_for_longer_than_there_was(way, serial):
  _, timeline = clock(
    way,
    network.Link(0.0, SIZE / 3),  # 3 s for a model, after 1 s.
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
def test_times_have_the_mean_that_was_asked_for(kind, spread):
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
  # A worker that computes for twice as long sleeps as others do.
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


def test_a_trace_is_read_and_its_end_is_told(tmp_path):
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


@pytest.mark.parametrize('way', [async_exchange.MEET, async_exchange.VISIT])
@pytest.mark.parametrize('failures', [(), ((1, 5.0),)])
def test_a_trace_ends_a_run_only_if_a_gradient_is_missing(
  way, failures, tmp_path
):
  path = tmp_path / 'trace'
  path.write_text('1.0\n' * 9)
  runner, timeline = clock(
    way,
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
  'wrong, sentence',
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
def test_impossible_machines_are_refused_by_name(wrong, sentence):
  with pytest.raises(UserError, match=sentence):
    cluster(3, 10, FULL, **wrong)


INSTANT = {'step_s': 0.0, 'latency_s': 0.0, 'bytes_per_s': math.inf}


@pytest.mark.parametrize(
  'strategy, changes, sentence',
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
  strategy, changes, sentence
):
  config = defaults.get_config(strategy)
  config.cluster = defaults.cluster()
  config.update(changes)
  with pytest.raises(UserError, match=sentence):
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
def test_an_engine_refuses_what_only_virtual_time_has(key, value):
  config = defaults.get_config('gossip')
  config.engine = 'ray'
  strategy = resolve.strategy(config.strategy)
  config.cluster = defaults.cluster(shards=2, sleep_s=0.1, step_s=0.0)
  assert machines.of_config(config, network.Link(0.0, math.inf), strategy)
  config.cluster[key] = value
  with pytest.raises(UserError, match=f'{key}={value} has no effect .*ray'):
    machines.of_config(config, FULL, strategy)


def test_a_round_with_nobody_left_to_wait_for_stops_at_the_time_out():
  compute_times = ComputeTimes(
    cluster(
      3, 9, FULL, step_s=1.0, asynchronous=False, failures=((0, 2.5), (1, 2.7))
    ),
    3,
    0,
  )
  timeline = Synchronous(compute_times, FULL, Told(None), timeout_s=60.0)
  timeline.next()
  timeline.next()  # Ends at 2.8 s; worker 2 is ready for the next at 3.8 s.
  with pytest.raises(Stalled, match='waited for worker 1'):
    timeline.next()


def rounds_of(told, workers=3, timeout_s=math.inf, **given):
  given = dict(step_s=1.0, asynchronous=False) | given
  found = cluster(workers, 9, FULL, **given)
  times = ComputeTimes(found, workers, 0)
  return Synchronous(times, FULL, told, found.first, timeout_s)


def test_who_fails_while_it_waits_computes_again():
  """Worker 0 is ready at 1 s and down from 2 to 2.5 s; the round is at 4 s."""
  timeline = rounds_of(
    Told(None), factors=(1.0, 4.0, 1.0), failures=((0, 2.0, 3.5),)
  )
  timeline.next()
  spent = timeline.usage.spent_s['wait']
  assert spent[[0, 1, 2]] == pytest.approx([0.0, 0.5, 3.5])
  timeline = rounds_of(
    Told(None), factors=(1.0, 4.0, 1.0), failures=((0, 2.0, 2.5),)
  )
  timeline.next()
  assert timeline.usage.spent_s['wait'][0] == pytest.approx(0.5)
  # One that is ready at 2 s is not hit by an outage that begins at 4 s.
  timeline = rounds_of(
    Told(None), factors=(1.0, 4.0, 1.0), failures=((0, 4.0, 4.5),)
  )
  timeline.next()
  assert timeline.usage.spent_s['wait'][0] == pytest.approx(3.0)


def test_an_outage_after_the_time_out_does_not_move_it():
  for later in ((), ((1, 1000.0, 1001.0),)):
    timeline = rounds_of(
      Told(None), failures=((0, 0.5), *later), timeout_s=10.0
    )
    with pytest.raises(Stalled) as stalled:
      timeline.next()
    assert stalled.value.time_s == pytest.approx(11.0)


def test_who_has_failed_for_good_does_not_come_back_in_silent_rounds(tmp_path):
  """Short steps after a long one would end before the failure."""

  class Silent(Told):
    def round_traffic(self, who, step):
      return super().round_traffic(who, step) * False

    def run_silent_round(self, who, step):
      self.rounds.append(list(who))

  path = tmp_path / 'trace.csv'
  path.write_text('1,1,1\n9,1,1\n' + '1,1,1\n' * 7)
  given = dict(compute='trace', trace=str(path), failures=((0, 5.0),))
  timeline = rounds_of(told := Silent(None), **given)
  for _ in range(6):
    timeline.next()
  assert told.rounds == [[0, 1, 2]] + [[1, 2]] * 5
  assert timeline.now == pytest.approx(6.0)
  again = rounds_of(told, **given)
  again.from_json(json.loads(json.dumps(timeline.to_json())))
  assert again.to_json() == timeline.to_json()


def test_no_pipe_carries_more_than_it_can():
  rng = np.random.default_rng(0)
  for fair in (False, True):
    pipe, now, work, out = SharedLink(2, fair), 0.0, 0.0, []
    for who in range(40):
      now += rng.exponential(0.3)
      while pipe.next() <= now:
        out += pipe.pop(pipe.next())
      seconds = rng.exponential(0.5)
      pipe.add(now, who, seconds)
      work += seconds
    while pipe.next() < math.inf:
      now = pipe.next()
      out += pipe.pop(now)
    assert sorted(out) == list(range(40))
    assert pipe.busy_until(now) * 2 == pytest.approx(work)
    assert pipe.busy_until(now) < now


def test_a_visit_is_a_transfer_of_both_ways_and_two_latencies():
  _, timeline = clock(async_exchange.VISIT, FULL, shards=3)
  while timeline.rounds < 2:
    timeline.next()
  spent = timeline.usage.spent_s
  assert spent['transfer'] == pytest.approx([0.8] * 3)
  assert spent['wait'] == pytest.approx([0.0] * 3, abs=1e-9)


def test_a_gradient_is_as_stale_as_the_meetings_since_it_began():
  # 0 meets 1 every 1.4 s; 1 begins at 0 s, is ready at 5 s and at 10 s.
  _, timeline = clock(
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
def test_times_vary_as_much_as_was_asked_for(kind, deviation):
  machines = cluster(2, 9, FULL, compute=kind, spread=0.5, step_s=0.2)
  times = ComputeTimes(machines, 2, 0)
  took = [times.seconds(w, t, 0.0) for w in range(2) for t in range(2_000)]
  assert np.std(took) == pytest.approx(0.2 * deviation, rel=0.06)


def test_the_link_of_who_waits_is_busy_while_a_round_carries_data():
  timeline = rounds_of(Told(None))
  for _ in range(2):
    timeline.next()  # 1 s of computing, 0.1 s of latency, 0.3 s of bytes.
  assert timeline.utilisation == pytest.approx(0.3 / 1.4)


def test_who_fetches_the_model_waits_for_those_who_fetch_before():
  factors = (1.0, 1.0, 1.2, 1.3)
  timeline = rounds_of(Told(None), workers=4, first=2, factors=factors)
  timeline.next()  # Until 1.4 s; workers 2 and 3 are late.
  timeline.next()  # A model takes 0.4 s.
  assert starts_of(timeline, 2) == pytest.approx([0.0, 1.8])
  assert starts_of(timeline, 3) == pytest.approx([0.0, 2.2])
  # Worker 0 gave the model to both, and took part in two rounds: 0.3 s each.
  assert timeline.utilisation == pytest.approx(4 * 0.3 / 2.8)


def starts_of(timeline, worker):
  mine = (span for span in timeline.usage.spans if span[0] == worker)
  return [since for _, kind, since, _ in mine if kind == 'compute']
