"""The engine's fault handling, with plain objects instead of Ray's actors."""

import math
import pathlib
import signal
import tempfile
import threading
import time
import types

import pytest

from gossipjax import async_exchange
from gossipjax.config import defaults
from gossipjax.engine import ray_cluster
from gossipjax.engine.clock import Clock, now
from gossipjax.engine.crew import SERVER, WORKER
from gossipjax.errors import UserError
from gossipjax.simulation.separate_fleet import Separate
from gossipjax.traffic import Traffic
from gossipjax.training.run import resolve_run

ray = pytest.importorskip('ray')

from gossipjax.engine import crew, monitor, worker_process  # noqa: E402


class Crew:
  """A crew of two workers without processes."""

  def __init__(self):
    self.actors = {(WORKER, i): object() for i in range(2)}
    self.steps = [0, 0]

  def of(self, kind):
    return ((i, a) for (k, i), a in self.actors.items() if k == kind)

  def connect(self):
    pass


@pytest.fixture
def make_monitor(monkeypatch):
  """Makes the monitor of a run that began `seconds` ago."""
  monkeypatch.setattr(ray, 'kill', lambda actor: None)

  def make(outages, seconds):
    began = now() - seconds
    return monitor.Monitor(Crew(), outages, lambda message: None, began)

  return make


def test_a_run_goes_on_if_a_dead_worker_will_restart(make_monitor):
  found = make_monitor([(0, 5.0, 1000.0), (1, 7.0, math.inf)], 8)
  found._kill()
  found._died((WORKER, 0))
  found._died((WORKER, 1))  # It does not come back; worker 0 does.
  assert found.faults == 2


def test_a_run_ends_if_no_worker_will_restart(make_monitor):
  found = make_monitor([(0, 5.0, math.inf), (1, 7.0, math.inf)], 8)
  found._kill()
  found._died((WORKER, 0))
  with pytest.raises(UserError, match='stopped every worker for good'):
    found._died((WORKER, 1))


def test_a_dead_worker_stays_dead_if_another_outage_begins(make_monitor):
  found = make_monitor([(1, 1.0, 2.0), (1, 3.0, math.inf)], 1.5)
  found._kill()
  found._died((WORKER, 1))
  found.began -= 2.5  # Its new process has not started yet.
  found._kill()
  assert found._away == {(WORKER, 1): math.inf}


def test_planned_outages_do_not_count_as_crashes(make_monitor):
  name, times = (WORKER, 1), range(10, 70, 10)
  found = make_monitor([(1, t, t + 5.0) for t in times], 0)
  for t in times:  # The worker makes no step between two outages.
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
def test_only_a_shard_that_served_a_step_may_die_again(
  make_monitor, monkeypatch, sent
):
  found, shard = make_monitor([], 8), (SERVER, 0)
  bill = Traffic.of([sent], [sent // 8], [0])
  entries = [types.SimpleNamespace(sent=bill)]
  monkeypatch.setattr(ray, 'get', lambda ref: (entries, None))
  for _ in range(monitor.MOST_DEATHS):
    found._died(shard)
  found._result((WORKER, 0), 'news')
  if sent:
    found._died(shard)
    assert found.faults == 1 + monitor.MOST_DEATHS
  else:  # The worker's step did not use the server.
    with pytest.raises(UserError, match='Server 0 died 4 times'):
      found._died(shard)


@pytest.fixture
def calls(monkeypatch):
  """Calls of `ray.init` and `ray.shutdown`, which do nothing."""
  found = []
  for name in ('init', 'shutdown'):
    call = lambda *given, name=name, **rest: found.append((name, given, rest))
    monkeypatch.setattr(ray, name, call)
  return found


def test_a_ray_that_the_user_started_is_refused_and_not_shut_down(
  calls, monkeypatch
):
  monkeypatch.setattr(ray, 'is_initialized', lambda: True)
  with (
    pytest.raises(UserError, match=r'call ray\.shutdown'),
    ray_cluster.connected(),
  ):
    pass
  assert not calls


def test_ray_starts_locally_from_a_thread_and_with_a_long_temp_folder(
  calls, monkeypatch, tmp_path
):
  """It ignores RAY_ADDRESS; a socket's path may have 107 bytes."""
  long = tmp_path / ('long' * 10)
  long.mkdir()
  monkeypatch.setattr(tempfile, 'tempdir', str(long))
  errors = []

  def connect():
    try:
      with ray_cluster.connected():
        pass
    except ValueError as error:  # Of signal, off the main thread.
      errors.append(error)

  thread = threading.Thread(target=connect)
  thread.start()
  thread.join()
  (_, given, rest), ended = calls
  assert given == ('local',) and ended[0] == 'shutdown' and not errors
  session = 'session_2026-01-31_23-59-59_123456_1234567/sockets/plasma_store'
  assert len(f'{rest["_temp_dir"]}/{session}') <= 107
  assert not pathlib.Path(rest['_temp_dir']).exists()


def test_a_ray_that_does_not_start_in_time_ends_with_an_error_message(
  calls, monkeypatch
):
  folders, at_exit = [], []

  def init(*_, **given):
    folders.append(pathlib.Path(given['_temp_dir']))
    raise Exception('The node timed out.')  # As Ray does.

  monkeypatch.setattr(ray, 'init', init)
  register = lambda *given, **rest: at_exit.append((given, rest))
  monkeypatch.setattr(ray_cluster.atexit, 'register', register)
  with (
    pytest.raises(UserError, match='did not start: The node timed out'),
    ray_cluster.connected(),
  ):
    pass
  folders[0].mkdir()  # By a process of Ray that has not ended yet.
  (((remove, *given), rest),) = at_exit
  remove(*given, **rest)
  assert not folders[0].exists()


def test_rays_processes_block_the_signal_of_a_closed_terminal(
  calls, monkeypatch
):
  """They inherit the mask; in this process a signal is only late."""
  mask = lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ())
  inside, before = [], mask()
  monkeypatch.setattr(ray, 'init', lambda *_, **__: inside.append(mask()))
  with ray_cluster.connected():
    assert mask() == before
  assert inside == [before | {signal.SIGHUP}]


class Newcomer:
  """A new process, which is ready once its answer is awaited."""

  def __init__(self):
    self.ready = False
    self.begin = self.join = self

  def remote(self, *given):
    del given
    return self


@pytest.fixture
def crew_without_shard(monkeypatch):
  """A crew without the server's shard, whose first answer makes it ready."""

  def get(ref, timeout):
    assert timeout
    ref.ready = True

  monkeypatch.setattr(ray, 'get', get)
  found = object.__new__(crew.Crew)
  found.actors, found.kept = {}, [0]
  found._setup = types.SimpleNamespace(shards=[[0]])
  return found


def test_a_new_process_has_its_state_before_the_others_may_call_it(
  crew_without_shard,
):
  known = []
  crew_without_shard.connect = lambda: known.append(
    crew_without_shard.actors[SERVER, 0].ready
  )
  crew_without_shard.let_in((SERVER, 0), Newcomer())
  assert known == [True]


def test_a_process_that_does_not_take_its_state_is_killed_and_restarted(
  make_monitor, monkeypatch
):
  found, killed, name = make_monitor([], 8), [], (WORKER, 1)
  monkeypatch.setattr(ray, 'kill', killed.append)
  monkeypatch.setattr(ray, 'wait', lambda refs, timeout: (refs, []))
  monkeypatch.setattr(ray, 'get', lambda ref: None)

  def time_out(name, actor):
    raise ray.exceptions.GetTimeoutError

  found._crew.let_in, found._crew.actors = time_out, {(WORKER, 0): object()}
  found._away[name] = 0.0
  found._starting[name] = 'new', 'warm', time.monotonic()
  found._let_in()
  assert killed == ['new'] and found._away == {name: 0.0}
  assert not found._starting


@pytest.mark.parametrize(
  'answers, kept',
  [
    (['new', 'new'], True),
    (['new', ray.exceptions.RayActorError()], True),  # It is replaced.
    (['new', ray.exceptions.GetTimeoutError()], False),
    ([ray.exceptions.RayActorError()] * 2, False),
    ([], False),  # All have died.
  ],
)
def test_no_checkpoint_keeps_states_from_before_the_workers_were_silent(
  answers, kept, monkeypatch
):
  def get(ref, timeout):
    assert timeout
    if isinstance(ref, Exception):
      raise ref
    return ref

  monkeypatch.setattr(ray, 'get', get)
  monkeypatch.setattr(crew, 'unpacked', lambda leaves, like: leaves)
  found = object.__new__(crew.Crew)
  found.states = Separate(('old', 'old'), [], None)
  state = lambda answer: types.SimpleNamespace(remote=lambda: answer)
  found.actors = {
    (WORKER, i): types.SimpleNamespace(state=state(answer))
    for i, answer in enumerate(answers)
  }
  singles = [x if x == 'new' else 'old' for x in [*answers, 'old', 'old'][:2]]
  assert [*found.read().singles] == singles
  if kept:
    found.keep()
    return
  with pytest.raises(UserError, match='do not answer any more; --resume'):
    found.keep()


class Shard:
  """A shard of a server, or another worker; it may be dead."""

  def __init__(self, name, dead):
    self.name, self.dead, self.asked = name, dead, 0
    self.answer = self

  def remote(self, row, attending, step, message):
    del row, attending, step
    self.asked += 1
    return None if self.dead else f'{self.name}: {message}'


def get(ref, timeout):
  """As `ray.get`, for what `Shard.remote` returns."""
  del timeout
  if ref is None:
    raise ray.exceptions.RayActorError
  return ref


def test_a_shard_that_has_answered_is_not_called_again(monkeypatch):
  shards = {0: Shard('first', False), 1: Shard('second', True)}

  class Clock:
    def __call__(self):
      return 0.0

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


def test_an_evaluation_does_not_count_as_waiting_for_a_server(monkeypatch):
  """The server dies before a long evaluation, and comes back after it."""
  shard, at = Shard('it', True), [100.0]

  class Paused:
    def __init__(self):
      self.checks = 0

    def __call__(self):
      return 3.0  # It stands.

    def check(self):
      self.checks += 1
      at[0] += 2 * worker_process.WAIT_S
      shard.dead = self.checks < 3

  monkeypatch.setattr(ray, 'get', get)
  monkeypatch.setattr(worker_process.time, 'monotonic', lambda: at[0])
  worker = object.__new__(worker_process.WorkerProcess)
  kind = types.SimpleNamespace(kind=async_exchange.VISIT)
  worker._setup = types.SimpleNamespace(exchange=kind)
  worker._clock, worker._others = Paused(), {0: shard}
  assert worker._call([], 7, ['a']) == ['it: a'] and shard.asked == 4


def test_workers_are_in_order_after_one_has_come_back():
  """Worker 0 is the first whose model is scored."""
  found = object.__new__(crew.Crew)
  found.steps = [0, 0, 0]
  found.actors = {(WORKER, i): object() for i in (1, 2, 0)}
  assert found.alive() == [0, 1, 2]


def test_another_version_of_ray_is_named(monkeypatch):
  reason = 'Version mismatch: The cluster was started with:\n  Ray: 2.9.'

  def init(**_):
    raise RuntimeError(reason)

  fake = types.SimpleNamespace(init=init)
  with pytest.raises(
    UserError, match=r'node: Version mismatch: .* Ray: 2\.9\.'
  ):
    ray_cluster._join(fake, 'node')
  reason = 'no such thing'
  with pytest.raises(UserError, match='there is no Ray cluster'):
    ray_cluster._join(fake, 'node')


def test_a_slow_answer_does_not_count_as_a_death(monkeypatch):
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
    def __call__(self):
      return 0.0

    def check(self):
      pass

  monkeypatch.setattr(ray, 'get', get)
  other = Shard('other', False)
  worker = object.__new__(worker_process.WorkerProcess)
  worker._setup, worker._clock, worker._others = Setup, Clock(), {3: other}
  assert worker._call([3], 7, ['a']) == ['other: a']
  assert other.asked == 1 and len(waited) == 3


def test_work_while_the_clock_is_paused_is_added_to_it_afterwards():
  clock = Clock()
  began = now()
  clock.begin(began)
  clock.pause(began + 0.1)
  time.sleep(0.3)  # It goes on computing.
  timer = threading.Timer(0.4, lambda: clock.resume(now()))
  timer.start()
  clock.check()
  # 0.1 s before the pause, 0.2 s of work during it; idle time does not count.
  assert 0.28 <= clock() < 0.45
  timer.join()


@pytest.mark.parametrize('jump', [-5.0, 5.0])
def test_the_clock_ignores_jumps_of_the_system_clock(jump, monkeypatch):
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


@pytest.mark.parametrize(
  'lines, back, refused', [(12, 0, True), (24, 0, False), (12, 9.0, False)]
)
def test_a_trace_has_to_last_for_the_workers_that_stay(
  tmp_path, lines, back, refused
):
  (tmp_path / 'trace.csv').write_text('0.01, 0.05\n' * lines)
  config = defaults.get_config('pull_gossip')
  config.update(workers=2, steps=12, engine='ray')
  failure = (1, 0.3, back) if back else (1, 0.3)
  config.cluster = defaults.cluster(
    compute='trace', trace=str(tmp_path / 'trace.csv'), failures=(failure,)
  )
  if not refused:
    resolve_run(config)
    return
  with pytest.raises(UserError, match='leave 1 of 2 workers, these need 24'):
    resolve_run(config)
