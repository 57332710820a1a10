"""How commands end on a signal, and how they are told again."""

import signal
import subprocess
import sys

import pytest
from absl import flags
from jax.errors import JaxRuntimeError

from gossipjax.commands import command_line, console, flag_errors
from gossipjax.distributed import processes
from tests.support import program

PROGRAM = """
import contextlib, os, signal, sys, time
from absl import app
from gossipjax.commands import console

for number in (signal.SIGINT, signal.SIGHUP):  # The tests may run by nohup.
  signal.signal(number, signal.SIG_DFL)

@contextlib.contextmanager
def held():
  try:
    yield
  finally:
    print('closed', flush=True)

def main(argv, signals):
  assert signals is None
  with held():
    if 'fork' in sys.argv:  # As libraries do, which end their child so.
      read, write = os.pipe()
      if not (child := os.fork()):
        os.write(write, b'.')
        time.sleep(60)
      os.read(read, 1)
      os.kill(child, signal.SIGTERM)
      print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
      return
    print('open', flush=True)
    time.sleep(60)

app.run(console.guarded(main, again=None))
"""


def started(*words):
  return subprocess.Popen(
    [sys.executable, '-c', PROGRAM, *words],
    cwd=program.ROOT,
    env=program.ENVIRONMENT,
    text=True,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', ['SIGINT', 'SIGTERM', 'SIGHUP'])
def test_one_signal_ends_what_nothing_continues_and_closes_what_is_open(name):
  number = signal.Signals[name]
  with started() as process:
    assert process.stdout.readline() == 'open\n'
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
  assert (process.returncode, out, err) == (128 + number, 'closed\n', '')


@pytest.mark.exhaustive
def test_a_fork_that_is_ended_closes_nothing_of_its_parent():
  out, err = started('fork').communicate(timeout=20)
  assert (out, err) == (f'{-signal.SIGTERM}\nclosed\n', '')


FULL_DISK = """
import errno, os
from absl import app, flags
from gossipjax.commands import console

flags.DEFINE_string('workdir', None, 'Where results go.')

def main(argv, signals):
  raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

app.run(console.guarded(main, again=AGAIN))
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  ('again', 'remedy'),
  [
    ('--resume', '--resume continues'),
    ('the same command', 'the same command continues'),
    (None, 'run the command again'),
  ],
)
def test_a_full_disk_that_nobody_named_is_the_workdirs(again, remedy):
  ended = subprocess.run(
    [
      sys.executable,
      '-c',
      FULL_DISK.replace('AGAIN', repr(again)),
      '--workdir=some/where',
    ],
    cwd=program.ROOT,
    env=program.ENVIRONMENT,
    text=True,
    capture_output=True,
  )
  assert ended.returncode == 2
  assert ended.stderr == (
    f'some/where: the disk is full; make room, then {remedy}.\n'
  )


@pytest.mark.exhaustive
def test_a_command_without_a_workdir_has_a_sentence_for_a_full_disk():
  # As `report`, which has no such flag.
  code = FULL_DISK.replace('AGAIN', 'None').replace("'workdir'", "'out'")
  ended = subprocess.run(
    [sys.executable, '-c', code],
    cwd=program.ROOT,
    env=program.ENVIRONMENT,
    text=True,
    capture_output=True,
  )
  assert ended.returncode == 2
  assert ended.stderr == (
    'the output: the disk is full; make room, then run the command again.\n'
  )
  assert 'Traceback' not in ended.stderr


@pytest.mark.parametrize(
  ('more', 'told'),
  [
    (
      '--num_processes=4 --workdir=runs/a',
      'python -m gossipjax launch --processes=4 -- --config=my.py '
      '--workdir=runs/a-more',
    ),
    (
      '--num_processes 2 --workdir a/ --audit',
      'python -m gossipjax launch --processes=2 -- --config=my.py '
      '--workdir=a-more',
    ),
    ('--workdir=a', ''),
  ],
)
def test_several_processes_are_repeated_by_as_many_elsewhere(more, told):
  words = f'--distributed {more} --process_id=0 --config=my.py'.split()
  assert command_line.rerun_command(words) == told


@pytest.mark.parametrize(
  ('again', 'given', 'folder', 'told'),
  [
    ('--resume', [], 'runs/1', '--resume --workdir=runs/1'),
    ('the same command', [], '1', 'the same command with --workdir=1'),
    ('--resume', [], 'my run', "--resume '--workdir=my run'"),
    ('--resume', ['--workdir=1'], '1', '--resume'),
    (None, [], '1', None),
  ],
)
def test_who_continues_is_told_the_folder_that_nobody_named(
  again, given, folder, told, monkeypatch
):
  found = flags.FlagValues()
  flags.DEFINE_string('workdir', None, 'Where.', flag_values=found)
  found(['program', *given])
  found['workdir'].value = folder
  monkeypatch.setattr(console.flags, 'FLAGS', found)
  assert console._named(again) == told


def test_the_command_of_a_comparison_keeps_all_values_of_its_config():
  words = (
    '--config my.py --config.workers 4 --config.link.latency_s -1 --audit '
    '--noconfig.overlap --workdir out --config.strategy.name=topk'
  )
  kept = command_line.rerun_command(words.split())
  assert kept.endswith(
    ' --config=my.py --config.workers=4 --config.link.latency_s=-1 '
    '--config.overlap=False --config.strategy.name=topk'
  )


@pytest.mark.parametrize('kind, shown', [(JaxRuntimeError, 0), (OSError, 1)])
def test_only_words_of_jax_are_a_peer_that_is_gone_for_sure(
  kind, shown, monkeypatch, capsys
):
  monkeypatch.setattr(processes, 'distributed', lambda: True)
  monkeypatch.setattr(processes, 'leave', lambda code: None)
  processes.abandon(kind('Gloo: connection timed out'))
  told = capsys.readouterr().err
  assert 'a peer or the link to it is gone (' in told
  assert told.count('connection timed out') == shown


def test_what_goes_on_by_itself_needs_no_resume(monkeypatch):
  found = flags.FlagValues()
  flags.DEFINE_string('workdir', None, 'Where.', flag_values=found)
  monkeypatch.setattr(flag_errors.flags, 'FLAGS', found)
  error = flags.UnrecognizedFlagError('resume')
  told = flag_errors.of_words(error, ['--resume'])
  assert told.endswith('the same --workdir goes on by itself.')
