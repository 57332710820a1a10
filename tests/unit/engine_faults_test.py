"""The engine's faults without processes: plain objects play the actors."""

import math
import pathlib
import tempfile
import threading
import time
import types

import pytest

from gossipjax import async_exchange
from gossipjax.engine import ray_cluster
from gossipjax.engine.clock import Clock, now
from gossipjax.engine.crew import SERVER, WORKER
from gossipjax.errors import UserError
from gossipjax.traffic import Traffic

ray = pytest.importorskip('ray')

from gossipjax.engine import crew, monitor, worker_process  # noqa: E402


class Crew:
  """Two workers that nobody starts."""

  def __init__(self):
    self.actors = {(WORKER, i): object() for i in range(2)}
    self.steps = [0, 0]

  def of(self, kind):
    return ((i, a) for (k, i), a in self.actors.items() if k == kind)

  def connect(self):
    pass


@pytest.fixture
def watched(monkeypatch):
  """A watch of a run that began so many seconds ago."""
  monkeypatch.setattr(ray, 'kill', lambda actor: None)

  def of(outages, seconds):
    began = now() - seconds
    return monitor.Monitor(Crew(), outages, lambda said: None, began)

  return of


def test_a_run_waits_for_a_worker_that_comes_back(watched):
  found = watched([(0, 5.0, 1000.0), (1, 7.0, math.inf)], 8)
  found._kill()
  found._died((WORKER, 0))
  found._died((WORKER, 1))  # It does not come back; worker 0 does.
  assert found.faults == 2


def test_a_run_ends_when_nobody_comes_back(watched):
  found = watched([(0, 5.0, math.inf), (1, 7.0, math.inf)], 8)
  found._kill()
  found._died((WORKER, 0))
  with pytest.raises(UserError, match='stopped every worker for good'):
    found._died((WORKER, 1))


def test_who_is_away_when_another_outage_begins_stays_away(watched):
  found = watched([(1, 1.0, 2.0), (1, 3.0, math.inf)], 1.5)
  found._kill()
  found._died((WORKER, 1))
  found.began -= 2.5  # Its new process has not started yet.
  found._kill()
  assert found._away == {(WORKER, 1): math.inf}


def test_planned_outages_are_no_crashes(watched):
  name, times = (WORKER, 1), range(10, 70, 10)
  found = watched([(1, t, t + 5.0) for t in times], 0)
  for t in times:  # A step takes longer than the worker is there.
    found.began = now() - t
    found._kill()
    found._died(name)
    found._crew.actors[name] = found._away.pop(name)
  assert found.faults == len(times)
  for _ in range(monitor.MOST_DEATHS):
    found._died(name)
  with pytest.raises(UserError, match='died 4 times'):
    found._died(name)


@pytest.mark.parametrize('sent', [0, 8])
def test_a_shard_that_was_visited_may_die_again(watched, monkeypatch, sent):
  found, shard = watched([], 8), (SERVER, 0)
  bill = Traffic.of([sent], [sent // 8], [0])
  entries = [types.SimpleNamespace(sent=bill)]
  monkeypatch.setattr(ray, 'get', lambda ref: (entries, None))
  for _ in range(monitor.MOST_DEATHS):
    found._died(shard)
  found._result((WORKER, 0), 'news')
  if sent:
    found._died(shard)
    assert found.faults == 1 + monitor.MOST_DEATHS
  else:  # The worker made its step without the server.
    with pytest.raises(UserError, match='Server 0 died 4 times'):
      found._died(shard)


@pytest.fixture
def calls(monkeypatch):
  """What is asked of Ray, which starts nothing."""
  found = []
  for name in ('init', 'shutdown'):
    call = lambda *given, name=name, **rest: found.append((name, given, rest))
    monkeypatch.setattr(ray, name, call)
  return found


def test_a_ray_of_the_users_own_is_refused_and_goes_on(calls, monkeypatch):
  monkeypatch.setattr(ray, 'is_initialized', lambda: True)
  with (
    pytest.raises(UserError, match=r'call ray\.shutdown'),
    ray_cluster.connected(),
  ):
    pass
  assert not calls


def test_ray_starts_on_this_host_in_a_thread_and_a_long_folder(
  calls, monkeypatch, tmp_path
):
  """RAY_ADDRESS is for others; a socket's path has 107 bytes."""
  long = tmp_path / ('long' * 10)
  long.mkdir()
  monkeypatch.setattr(tempfile, 'tempdir', str(long))
  errors = []

  def connect():
    try:
      with ray_cluster.connected():
        pass
    except ValueError as error:  # Of signal.
      errors.append(error)

  thread = threading.Thread(target=connect)
  thread.start()
  thread.join()
  (_, given, rest), ended = calls
  assert given == ('local',) and ended[0] == 'shutdown' and not errors
  session = 'session_2026-01-31_23-59-59_123456_1234567/sockets/plasma_store'
  assert len(f'{rest["_temp_dir"]}/{session}') <= 107
  assert not pathlib.Path(rest['_temp_dir']).exists()


class Newcomer:
  """A process that begins when somebody waits for it."""

  def __init__(self):
    self.ready = False
    self.begin = self.join = self

  def remote(self, *given):
    del given
    return self


@pytest.fixture
def joined(monkeypatch):
  """A crew of which a server's shard is away; it is at work when it says so."""

  def get(ref, timeout):
    assert timeout
    ref.ready = True

  monkeypatch.setattr(ray, 'get', get)
  found = object.__new__(crew.Crew)
  found.actors, found.kept = {}, [0]
  found._setup = types.SimpleNamespace(shards=[[0]])
  return found


def test_who_comes_back_has_its_state_before_the_others_know_of_it(joined):
  known = []
  joined.connect = lambda: known.append(joined.actors[SERVER, 0].ready)
  joined.let_in((SERVER, 0), Newcomer())
  assert known == [True]


def test_who_does_not_take_its_state_is_killed_and_started_again(
  watched, monkeypatch
):
  found, killed, name = watched([], 8), [], (WORKER, 1)
  monkeypatch.setattr(ray, 'kill', killed.append)
  monkeypatch.setattr(ray, 'wait', lambda refs, timeout: (refs, []))
  monkeypatch.setattr(ray, 'get', lambda ref: None)

  def late(name, actor):
    raise ray.exceptions.GetTimeoutError

  found._crew.let_in, found._crew.actors = late, {(WORKER, 0): object()}
  found._away[name] = 0.0
  found._starting[name] = 'new', 'warm', time.monotonic()
  found._let_in()
  assert killed == ['new'] and found._away == {name: 0.0}
  assert not found._starting


class Shard:
  """A shard of a server that may be dead."""

  def __init__(self, name, dead):
    self.name, self.dead, self.asked = name, dead, 0
    self.answer = self

  def remote(self, row, attending, step, message):
    del row, attending, step
    self.asked += 1
    return None if self.dead else f'{self.name}: {message}'


def test_a_shard_that_has_answered_is_not_asked_again(monkeypatch):
  shards = {0: Shard('first', False), 1: Shard('second', True)}

  def get(ref, timeout):
    del timeout
    if ref is None:
      raise ray.exceptions.RayActorError
    return ref

  class Clock:
    def check(self):
      shards[1].dead = False  # The shard is back.

  class Visits:
    kind = async_exchange.VISIT

  class Setup:
    exchange = Visits

  monkeypatch.setattr(ray, 'get', get)
  worker = object.__new__(worker_process.WorkerProcess)
  worker._setup, worker._clock, worker._others = Setup, Clock(), shards
  assert worker._call([], 7, ['a', 'b']) == ['first: a', 'second: b']
  assert [shard.asked for shard in shards.values()] == [1, 2]


def test_a_long_message_is_no_death(monkeypatch):
  waited = []

  def get(ref, timeout):
    waited.append(timeout)
    if len(waited) < 3:
      raise ray.exceptions.GetTimeoutError
    return ref

  class Meets:
    kind = async_exchange.MEET

  class Setup:
    exchange = Meets

  class Clock:
    def check(self):
      pass

  monkeypatch.setattr(ray, 'get', get)
  other = Shard('other', False)
  worker = object.__new__(worker_process.WorkerProcess)
  worker._setup, worker._clock, worker._others = Setup, Clock(), {3: other}
  assert worker._call([3], 7, ['a']) == ['other: a']
  assert other.asked == 1 and len(waited) == 3


def test_what_a_worker_ends_while_the_clock_is_held_takes_its_time():
  clock = Clock()
  began = now()
  clock.begin(began)
  clock.pause(began + 0.1)
  time.sleep(0.3)  # It works on.
  timer = threading.Timer(0.4, lambda: clock.resume(now()))
  timer.start()
  clock.check()
  # 0.1 before, 0.3 of work while it was held; what it idled does not count.
  assert 0.28 <= clock() < 0.45
  timer.join()


@pytest.mark.parametrize('jump', [-5.0, 5.0])
def test_the_clock_goes_on_when_the_system_s_is_set(jump, monkeypatch):
  clock = Clock()
  clock.begin(now())
  system = time.time
  monkeypatch.setattr(time, 'time', lambda: system() + jump)
  began, then = time.monotonic(), clock() + 0.05
  clock.sleep_until(then)
  assert 0.04 < time.monotonic() - began < 1
  clock.pause(now())
  clock.resume(now())
  assert then <= clock() < then + 1
