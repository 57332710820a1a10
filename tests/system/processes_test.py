"""Several processes train as several devices do; failures of processes."""

import math
import os
import pathlib
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
import types

import jax
import numpy as np
import pytest

from gossipjax import errors
from gossipjax.commands import console, launch
from gossipjax.distributed import (
  allocator,
  constants,
  coordinator,
  echo,
  failures,
  launcher,
  ports,
)
from tests.support import multi_process, program
from tests.support.engine_run import alive

# As in the processes: with other optimizations results round differently.
pytestmark = pytest.mark.usefixtures('compile_quickly')
PROCESSES = multi_process.WORKERS
RESUME = 'all 3 have ended. --resume continues from the last checkpoint.'


@pytest.fixture(scope='module')
def found(tmp_path_factory):
  """The results that PROCESSES processes computed together."""
  folder, port = tmp_path_factory.mktemp('together'), ports.free()
  running = [
    program.module(
      subprocess.PIPE,
      'tests.support.multi_process',
      f'127.0.0.1:{port}',
      str(PROCESSES),
      str(i),
      str(folder),
    )
    for i in range(PROCESSES)
  ]
  outputs = [process.communicate()[0] for process in running]
  assert not any(p.returncode for p in running), '\n'.join(outputs)
  return pickle.loads((folder / 'found').read_bytes())


@pytest.mark.parametrize('name', multi_process.collective_calls())
@pytest.mark.parametrize('dtype', multi_process.DTYPES)
def test_a_collective_over_sockets_agrees_with_numpy(found, name, dtype):
  _, by_numpy = multi_process.collective_calls()[name]
  np.testing.assert_array_equal(
    found[dtype][name], by_numpy(multi_process.collective_inputs(dtype))
  )


@pytest.mark.parametrize('name', multi_process.STRATEGIES)
def test_every_strategy_uses_the_collectives_of_a_trained_one(name):
  tried = {
    multi_process.collectives_of(multi_process.STRATEGIES[n])
    for n in multi_process.TRIED
  }
  assert multi_process.collectives_of(multi_process.STRATEGIES[name]) in tried


@pytest.mark.parametrize('name', multi_process.TRIED)
def test_processes_and_devices_agree(found, name):
  """Bytes exactly; parameters to 1e-6, since sums may have another order."""
  for theirs, ours in zip(
    found[name],
    multi_process.train(multi_process.STRATEGIES[name]),
    strict=True,
  ):
    (their_params, their_sent), (params, sent) = theirs, jax.device_get(ours)
    jax.tree.map(np.testing.assert_array_equal, their_sent, sent)
    jax.tree.map(close, their_params, params)


def close(a, b):
  np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * np.abs(b).max())


GOSSIP = (
  '--config=configs/default.py:gossip',
  '--config.workers=3',
  '--config.steps=2000',
  '--config.log_every=4',
  '--config.eval_every=1000',
  '--config.checkpoint_every=20',
)


LARGE_PAGES = pathlib.Path('/sys/kernel/mm/transparent_hugepage/enabled')


def test_launch_sets_one_worker_per_process_unless_workers_are_given():
  assert launcher.with_workers(['--x'], 4) == ['--x', '--config.workers=4']
  assert launcher.with_workers(flags := ['-config.workers=2'], 4) == flags
  flags = ['--config.workers=8']
  assert launcher.with_workers(flags, 4) == flags


@pytest.mark.parametrize(
  'flags, printed',
  [
    ([], {'[0] 0', '[1] 1'}),
    (['--config.devices_per_worker=2'], {'[0] 0,1', '[1] 2,3'}),
    (['--config.workers', '6'], {'[0] 0,1,2', '[1] 3,4,5'}),
    (
      ['-config.workers=4', '--config.devices_per_worker=2'],
      {'[0] 0,1,2,3', '[1] 4,5,6,7'},
    ),
  ],
)
def test_each_process_of_a_host_has_its_own_gpus(
  flags, printed, monkeypatch, capfd
):
  read = f'import os; print(os.environ["{launcher.DEVICES}"])'
  command = [sys.executable, '-c', read]
  monkeypatch.setattr(launcher, 'command', lambda *_: command)
  assert device_ids(flags, capfd) == printed
  monkeypatch.setenv(launcher.DEVICES, '7')
  assert device_ids(flags, capfd) == {'[0] 7', '[1] 7'}


def device_ids(flags, capfd):
  """Lines of output of two launched processes, which print their devices."""
  with pytest.raises(SystemExit, match='0'):
    launch.start(['--processes=2', '--', *flags])
  return {*capfd.readouterr().out.splitlines()}


def test_a_line_is_written_in_one_call():
  written = []
  stream = types.SimpleNamespace(write=written.append, flush=lambda: None)
  assert echo.print_line('[0] a line', stream)
  assert written == ['[0] a line\n']  # Else lines of two processes mix.


def test_the_launcher_restores_the_signal_handlers():
  numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
  before = [signal.getsignal(number) for number in numbers]
  assert launcher.run([['true']]) == 0
  assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.skipif(
  not LARGE_PAGES.exists() or '[madvise]' not in LARGE_PAGES.read_text(),
  reason='No large pages on demand.',
)
def test_large_arrays_of_launched_processes_cause_few_page_faults(capfd):
  # Page faults of an array in memory that was freed: tcmalloc has kept it.
  count = (
    'from resource import getrusage; x = b"x" * 10**8; del x; '
    'before = getrusage(0).ru_minflt; '
    'x = b"x" * 10**8; print(getrusage(0).ru_minflt - before)'
  )
  assert launcher.run([[sys.executable, '-c', count]]) == 0
  assert int(capfd.readouterr().out.split()[-1]) < 10**8 / 4096 / 10


@pytest.mark.skipif(not allocator.tcmalloc(), reason='No tcmalloc.')
def test_launched_processes_use_tcmalloc_where_it_is_installed(capfd):
  read = 'print("tcmalloc" in open("/proc/self/maps").read())'
  assert launcher.run([[sys.executable, '-c', read]]) == 0
  assert capfd.readouterr().out.split()[-1] == 'True'


def test_processes_get_tcmalloc_or_else_large_pages(monkeypatch):
  monkeypatch.setattr(allocator, 'tcmalloc', lambda: None)
  assert allocator.environment() == allocator.LARGE_PAGES
  monkeypatch.setattr(allocator, 'tcmalloc', lambda: 'libtcmalloc.so.4')
  assert allocator.environment() == {'LD_PRELOAD': 'libtcmalloc.so.4'}


@pytest.mark.parametrize(
  'library, platform, words',
  [
    ('libtcmalloc.so.4', 'linux', 'With LD_PRELOAD=libtcmalloc.so.4 in front'),
    (
      None,
      'linux',
      'apt install libtcmalloc-minimal4) and '
      'LD_PRELOAD=libtcmalloc_minimal.so.4 in front',
    ),
    (None, 'darwin', ''),
  ],
)
def test_a_hint_says_how_to_get_tcmalloc_unless_it_is_used(
  monkeypatch, library, platform, words
):
  monkeypatch.setattr(allocator, 'tcmalloc', lambda: library)
  monkeypatch.setattr(allocator.sys, 'platform', platform)
  monkeypatch.setattr(allocator, '_loaded', lambda: False)
  for name in ('LD_PRELOAD', *allocator.LARGE_PAGES):
    monkeypatch.delenv(name, raising=False)
  hint = allocator.hint()
  assert words in hint and bool(words) == bool(hint) and '\n' not in hint
  with monkeypatch.context() as changed:
    changed.setattr(allocator, '_loaded', lambda: True)
    assert not allocator.hint()
  for name, value in allocator.LARGE_PAGES.items():
    monkeypatch.setenv(name, value)
  assert not allocator.hint()


def test_a_process_that_died_is_blamed_not_the_peer_that_lost_it():
  running = [
    subprocess.Popen(['sh', '-c', script])
    for script in (
      f'sleep 0.3; exit {constants.PEER_LOST}',
      'sleep 0.25; kill -9 $$',
      'sleep 1',
    )
  ]
  assert failures.first_failure(running) == (1, [])


@pytest.mark.parametrize(
  'script, code, blamed',
  [
    ('exit 2', 2, 'Process 0 ended with exit code 2'),
    ('kill -SEGV $$', 128 + signal.SIGSEGV, 'Process 0 died of SIGSEGV'),
    (
      f'exit {constants.PEER_LOST}',
      constants.PEER_LOST,
      'Process 1 did not answer',
    ),
  ],
)
def test_a_failure_determines_the_exit_code_although_others_hang(
  script, code, blamed, capfd
):
  commands = ['sh', '-c', script], ['sleep', '100']
  assert launcher.run(commands, grace_s=0.5) == code
  assert blamed in capfd.readouterr().err


def test_a_failed_process_is_blamed_even_if_its_peer_ends_first(capfd):
  lost = f'exit {constants.PEER_LOST}'
  commands = ['sh', '-c', 'sleep 1; exit 2'], ['sh', '-c', lost]
  assert launcher.run(commands, grace_s=5) == 2
  assert 'Process 0 ended with exit code 2' in capfd.readouterr().err


def launched(
  folder: pathlib.Path, *arguments: str, processes: int = 3
) -> subprocess.Popen:
  """Launches processes that train; `<folder>.log` receives their output."""
  return program.module(
    folder.with_suffix('.log').open('a'),
    'gossipjax',
    'launch',
    f'--processes={processes}',
    '--',
    *GOSSIP,
    f'--workdir={folder}',
    '--heartbeat_s=5',
    *arguments,
  )


def in_the_midst(folder: pathlib.Path, step: int = 1) -> None:
  """Waits until there is a checkpoint of `step` or later."""
  until, found = time.monotonic() + 120, folder / 'gossip' / 'checkpoints'
  while not any(
    p.name.isdigit() and int(p.name) >= step for p in found.glob('*')
  ):
    assert time.monotonic() < until, folder.with_suffix('.log').read_text()
    time.sleep(0.05)


def pid_of(launcher: subprocess.Popen, number: int) -> int:
  """Returns the pid of the process of this number."""
  children = (
    pathlib.Path(f'/proc/{launcher.pid}/task/{launcher.pid}/children')
    .read_text()
    .split()
  )
  return next(
    int(child)
    for child in children
    if f'--process_id={number}'
    in pathlib.Path(f'/proc/{child}/cmdline').read_text().split('\0')
  )


def assert_ends_with(
  launcher: subprocess.Popen, folder: pathlib.Path, message: str
) -> None:
  began = time.monotonic()
  assert launcher.wait() != 0
  assert time.monotonic() - began < 30
  assert folder.with_suffix('.log').read_text().splitlines()[-1] == message


def test_a_frozen_process_ends_all_with_an_error_message(tmp_path):
  folder = tmp_path / 'run'
  launcher = launched(folder)
  in_the_midst(folder)
  os.kill(pid_of(launcher, 1), signal.SIGSTOP)
  assert_ends_with(
    launcher, folder, f'Process 1 did not answer any more; {RESUME}'
  )


def test_a_stopped_and_killed_run_resumes_and_equals_one_process(tmp_path):
  """Gossip sums after the transfer, always in one order: no bit may differ."""
  folder, alone, steps = tmp_path / 'run', tmp_path / 'alone', '300'
  flag = f'--config.steps={steps}'
  launcher = launched(folder, flag)
  in_the_midst(folder)
  launcher.send_signal(signal.SIGINT)
  assert launcher.wait() == 128 + signal.SIGINT
  log = folder.with_suffix('.log').read_text()
  stopped = re.search(r'\[0\] Stopped after step (\d+), checkpoint kept', log)
  assert stopped, log
  launcher = launched(folder, flag, '--resume')
  in_the_midst(folder, int(stopped.group(1)) + 1)
  os.kill(pid_of(launcher, 1), signal.SIGKILL)
  died = 'Process 1 died of SIGKILL (out of memory, or killed by someone)'
  assert_ends_with(launcher, folder, f'{died}; {RESUME}')
  assert launched(folder, flag, '--resume').wait() == 0
  assert_equals_one_process(alone, folder, flag)


def assert_equals_one_process(alone, folder, *arguments: str) -> None:
  """Trains in one process, and compares all arrays of the newest checkpoint."""
  one = program.run(alone, *GOSSIP, *arguments, f'--workdir={alone / "run"}')
  assert one.code == 0, one.err
  ours, theirs = (
    program.arrays(f / 'gossip' / 'checkpoints')
    for f in (alone / 'run', folder)
  )
  assert ours.keys() == theirs.keys()
  for name, array in ours.items():
    np.testing.assert_array_equal(theirs[name], array)


@pytest.mark.smoke
def test_two_processes_end_with_the_arrays_of_one_process(tmp_path):
  flags = '--config.workers=2', '--config.steps=20'
  running = launched(tmp_path / 'run', *flags, processes=2)
  assert running.wait() == 0, (tmp_path / 'run.log').read_text()
  assert_equals_one_process(tmp_path / 'alone', tmp_path / 'run', *flags)


OVERLAPPING = """
from gossipjax.config import defaults, resolve


def get_config():
  config = defaults.get_config()
  config.update(
    workers=2,
    log_every=10,
    eval_every=20,
    checkpoint_every=20,
    overlap=True,
  )
  late = {'period': 4, 'delay': 2}
  config.variants = defaults.variants(
    delayed_averaging=resolve.strategy_config('delayed_averaging', **late),
    streaming_diloco=resolve.strategy_config('streaming_diloco', **late),
    topk=resolve.strategy_config('topk', granularity={'name': 'layer'}),
  )
  return config
"""


def test_an_exchange_that_overlaps_computation_changes_no_bit(tmp_path):
  """Two processes exchange in a second thread, end at step 20 and resume;
  one process waits for each exchange."""
  file = tmp_path / 'overlapping.py'
  file.write_text(OVERLAPPING)
  folder, alone = tmp_path / 'run', tmp_path / 'alone'
  # At the end of step 20, its exchange is still in flight.
  for steps, more in ((20, ()), (40, ('--resume',))):
    running = program.module(
      folder.with_suffix('.log').open('a'),
      'gossipjax',
      'launch',
      '--processes=2',
      '--',
      f'--config={file}',
      f'--config.steps={steps}',
      f'--workdir={folder}',
      *more,
    )
    assert running.wait() == 0, folder.with_suffix('.log').read_text()
  for place, overlap in (('sequence', True), ('one_program', False)):
    work = alone / place
    ended = program.run(
      alone,
      f'--config={file}',
      '--config.steps=40',
      f'--config.overlap={overlap}',
      f'--workdir={work}',
    )
    assert ended.code == 0, ended.err
    for name in ('delayed_averaging', 'streaming_diloco', 'topk'):
      ours, theirs = (
        program.arrays(f / name / 'checkpoints') for f in (work, folder)
      )
      assert ours.keys() == theirs.keys()
      for key, array in ours.items():
        assert array.tobytes() == theirs[key].tobytes(), (place, name, key)


@pytest.mark.parametrize('name', ['SIGINT', 'SIGTERM'])
def test_a_signalled_launcher_exits_with_128_plus_the_signal(name):
  stop = f'import os, signal, time; os.kill(os.getppid(), signal.{name})'
  code = launcher.run([[sys.executable, '-c', f'{stop}; time.sleep(60)']])
  assert code == 128 + getattr(signal, name)


PRINTS = r"""
import sys
from gossipjax.commands import launch
from gossipjax.distributed import launcher
line = r"b'\xc2\xb1' * 50 + b'\n'"
code = f"import os; [os.write(1, {line}) for _ in range(2000)]"
launcher.command = lambda *_: [sys.executable, '-c', code]
launch.start(['--processes=1'])
"""


@pytest.mark.parametrize(
  'redirection, lost',
  [
    ('> /dev/full', True),
    ('> /dev/full 2>&1', False),  # The message is lost, too.
    ('| true; exit ${PIPESTATUS[0]}', False),
    ('> /dev/null', False),  # Prints characters outside ASCII.
  ],
)
def test_processes_continue_when_their_output_cannot_be_printed(
  redirection, lost
):
  ended = subprocess.run(
    ['bash', '-c', f'"$@" {redirection}', 'bash', sys.executable, '-c', PRINTS],
    cwd=program.ROOT,
    env=program.ENVIRONMENT | {'PYTHONIOENCODING': 'ascii'},
    capture_output=True,
    timeout=60,
    text=True,
  )
  assert ended.returncode == 0
  assert ended.stderr.count('\n') == lost
  assert ('free space on the disk' in ended.stderr) == lost


@pytest.mark.parametrize('session', ['', 'setsid '])
def test_a_child_left_by_a_process_does_not_block_the_launcher(session, capfd):
  began = time.monotonic()
  script = f'{session}sleep 30 & echo $!; exit 1'
  assert launcher.run([['sh', '-c', script]]) == 1
  assert time.monotonic() - began < 20
  stdout, stderr = capfd.readouterr()
  assert stderr == 'Process 0 ended with exit code 1; all 1 have ended.\n'
  child = int(stdout.split()[-1])
  if session:  # In its own session it lives on.
    os.kill(child, signal.SIGKILL)
  else:  # Its pipe closes a moment before the kernel reports its death.
    deadline = time.monotonic() + 10
    while alive(child) and time.monotonic() < deadline:
      time.sleep(0.01)
    assert not alive(child)


def test_a_death_by_a_signal_without_a_name_is_reported(capfd):
  assert launcher.run([['sh', '-c', 'kill -40 $$']]) == 128 + 40
  assert 'Process 0 died of signal 40; all 1' in capfd.readouterr().err


STARTS_MANY = """
import sys
from gossipjax.commands import launch
from gossipjax.distributed import launcher
launcher.command = lambda *_: ['sleep', '61.5']
launch.start(['--processes=20'])
"""


# Open files: too few for the sockets, and too few for the pipes.
@pytest.mark.parametrize('files', [24, 44])
def test_too_many_processes_end_with_an_error_message(files):
  began = time.monotonic()
  limited = f'ulimit -n {files}; exec "$@"'
  ended = subprocess.run(
    ['bash', '-c', limited, 'bash', sys.executable, '-c', STARTS_MANY],
    cwd=program.ROOT,
    env=program.ENVIRONMENT,
    capture_output=True,
    text=True,
  )
  assert (
    ended.returncode == errors.USER_ERROR_EXIT and ended.stderr.count('\n') == 1
  )
  assert re.search('Process .* of 20 could not be started', ended.stderr)
  assert time.monotonic() - began < 50


def test_if_a_process_cannot_be_started_the_others_are_killed(monkeypatch):
  started = []
  start = launcher._start

  def remembered(*given):
    started.append(start(*given))
    return started[-1]

  monkeypatch.setattr(launcher, '_start', remembered)
  with pytest.raises(errors.UserError, match='Process 1 of 2 could not be'):
    launcher.run([['sleep', '61.5'], ['/no-such-program']])
  assert started[0].wait(10) == -signal.SIGKILL


def refused_address(tmp_path, where, number):
  """The error message of a process that is given a bad coordinator address."""
  ended = program.run(
    tmp_path,
    *program.DIGITS,
    '--distributed',
    f'--coordinator={where}',
    '--num_processes=2',
    f'--process_id={number}',
    f'--workdir={tmp_path}/run',
  )
  assert ended.code == errors.USER_ERROR_EXIT and ended.err.count('\n') == 1, (
    ended.err
  )
  return ended.err


def run_two(
  tmp_path, *others: str, both: tuple[str, ...] = (), variables=({}, {})
):
  """Runs two processes with flags `both`, the second also with `others`."""
  own = (
    *program.DIGITS,
    '--config.workers=2',
    '--distributed',
    f'--coordinator=127.0.0.1:{ports.free()}',
    '--num_processes=2',
    f'--workdir={tmp_path}/run',
    *both,
  )
  first, second = (
    program.start(
      tmp_path / str(i),
      *own,
      f'--process_id={i}',
      *others[: i * len(others)],
      **environment,
    )
    for i, environment in enumerate(variables)
  )
  return first.end(), second.end()


@pytest.mark.parametrize(
  'flag, message',
  [
    (
      '--config.optimizer.learning_rate=0.2',
      'config.optimizer.learning_rate=0.2 and not 0.1',
    ),
    ('--config.strategy.name=gossip', 'config.strategy.'),
    ('--workdir=runs/elsewhere', '--workdir=runs/elsewhere and not '),
    ('--num_processes=3', '--num_processes=3 and not 2'),
    ('--interface=lo', '--interface=NAME and not nothing'),
  ],
)
def test_processes_with_different_settings_are_refused(tmp_path, flag, message):
  for ended in run_two(tmp_path, flag):
    assert ended.code == errors.USER_ERROR_EXIT, ended.err
    assert f'Process 1 has other settings than process 0: {message}' in (
      ended.err
    )
  assert not (tmp_path / 'run').exists()


def run_one_of_one(folder, *flags, **environment):
  """Runs a process that is the only one of a distributed run."""
  return program.run(
    folder,
    *program.DIGITS,
    '--distributed',
    f'--coordinator=127.0.0.1:{ports.free()}',
    '--num_processes=1',
    '--process_id=0',
    *flags,
    **environment,
  )


@pytest.mark.parametrize(
  'flags, message',
  [
    ((), 'Several processes need --workdir, a folder that all of them see.'),
    (
      ('--workdir=runs/a', '--audit'),
      '--audit compiles for one process; leave',
    ),
  ],
)
def test_bad_flags_of_several_processes_have_messages_of_their_own(
  tmp_path, flags, message
):
  ended = run_one_of_one(tmp_path, *flags)
  assert ended.code == errors.USER_ERROR_EXIT
  assert (
    ended.err.startswith(message) and '--distributed needs' not in ended.err
  )


def test_the_coordinator_is_not_asked_for_through_a_proxy(tmp_path):
  ended = run_one_of_one(
    tmp_path, '--step_timeout_s=40', https_proxy='http://127.0.0.1:9'
  )
  assert ended.err == (
    'Several processes need --workdir, a folder that all of them see.\n'
  )


def test_a_workdir_that_only_one_process_sees_is_refused(tmp_path):
  homes = [tmp_path / name for name in ('a', 'b')]
  for home in homes:
    home.mkdir()
  own = [{'HOME': str(home)} for home in homes]
  for ended in run_two(tmp_path, both=('--workdir=~/run',), variables=own):
    assert ended.code == errors.USER_ERROR_EXIT, ended.err
    assert 'Process 1 does not see --workdir=' in ended.err
  assert not [file for home in homes for file in home.iterdir()]


def test_all_processes_exit_alike_when_every_variant_diverges(tmp_path):
  too_fast = '--config.optimizer.learning_rate=1e30', '--config.steps=4'
  first, second = run_two(tmp_path, both=too_fast)
  assert first.code == second.code == console.DIVERGED, second.err
  assert 'The loss is NaN or Inf' in first.err
  assert 'The loss is NaN' not in second.err and 'Fatal' not in second.err


def test_a_process_whose_peers_never_join_ends_with_a_message(tmp_path):
  ended = program.run(
    tmp_path,
    *program.DIGITS,
    '--distributed',
    f'--coordinator=127.0.0.1:{ports.free()}',
    '--num_processes=2',
    '--process_id=0',
    f'--workdir={tmp_path}/run',
    '--step_timeout_s=12',
  )
  assert ended.code == constants.PEER_LOST
  waits, gives_up = ended.err.splitlines()
  assert waits.endswith('waits for the others, up to 12 s.')
  assert 'did not all come within --step_timeout_s=12' in gives_up


def test_a_process_without_a_coordinator_exits_with_peer_lost(tmp_path):
  ended = program.run(
    tmp_path,
    *program.DIGITS,
    '--distributed',
    f'--coordinator=127.0.0.1:{ports.free()}',
    '--num_processes=2',
    '--process_id=1',
    f'--workdir={tmp_path}/run',
    '--step_timeout_s=1',
  )
  assert ended.code == constants.PEER_LOST
  assert 'nobody answers there' in ended.err and ended.err.count('\n') == 1


@pytest.mark.parametrize('flag', ['num_processes', 'process_id', 'coordinator'])
def test_launch_refuses_flags_that_it_sets_itself(flag, capsys):
  with pytest.raises(SystemExit, match=str(errors.USER_ERROR_EXIT)):
    launch.start(['--processes=2', '--', '--config=c.py', f'--{flag}=1'])
  assert (
    f'launch sets --{flag} itself; leave it out.' in capsys.readouterr().err
  )


def test_launch_refuses_flags_of_run_before_the_two_hyphens(capsys):
  for words in (['--config=c.py'], ['stray', '--', '--config=c.py']):
    with pytest.raises(SystemExit, match=str(errors.USER_ERROR_EXIT)):
      launch.start(['--processes=2', *words])
    message = f'{words[0]} is no flag of launch; flags of `run` come after --'
    assert message in capsys.readouterr().err


@pytest.mark.parametrize('number', [0, 1])
@pytest.mark.parametrize(
  'where', ['localhost', '127.0.0.1:99999', '127.0.0.1:0', 'a..b:1234']
)
def test_a_malformed_coordinator_address_is_refused(tmp_path, where, number):
  assert f'{where} is not host:port' in refused_address(tmp_path, where, number)


@pytest.mark.parametrize('tries', [2, math.inf])
def test_process_0_waits_until_its_own_name_is_known(tries, monkeypatch):
  find, calls = socket.getaddrinfo, []

  def late(host, *given, **rest):
    calls.append(host)
    if len(calls) < tries:
      raise socket.gaierror(socket.EAI_NONAME, 'Name or service not known')
    return find('127.0.0.1', *given, **rest)

  monkeypatch.setattr(socket, 'getaddrinfo', late)
  wait = lambda: coordinator._meet('Process 0', 'train-0.train:7077', 0, 0.5)
  if tries == 2:
    wait()
  else:
    with pytest.raises(errors.UserError, match='the name is not known on this'):
      wait()
  assert {*calls} == {'train-0.train'} and len(calls) >= 2


@pytest.mark.skipif(sys.platform != 'linux', reason='It is free there.')
def test_a_reserved_port_is_free_for_the_coordinator_only():
  with ports.reserved() as port:
    place = '127.0.0.1', port
    with socket.socket() as other, pytest.raises(OSError, match='in use'):
      other.bind(place)
    coordinator._check_listens('here', place, 1)
    with socket.socket() as service:  # As gRPC does.
      service.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
      service.bind(place)
      service.listen()
      with pytest.raises(errors.UserError, match='cannot listen there'):
        coordinator._check_listens('here', place, 1)


def test_a_coordinator_port_in_use_ends_with_an_error_message(tmp_path):
  with socket.socket() as other:
    other.bind(('127.0.0.1', 0))
    other.listen()
    where = f'127.0.0.1:{other.getsockname()[1]}'
    message = refused_address(tmp_path, where, 0)
    assert 'Address already in use' in message
    assert '`launch` draws a port each time: start it again.' in message
