"""How commands end on a signal or an error, and how to run them again."""

import operator
import re
import signal
import subprocess
import sys

import pytest
from absl import flags
from jax.errors import JaxRuntimeError
from ml_collections import ConfigDict

from gossipjax.commands import command_line, console, flag_errors
from gossipjax.distributed import processes
from gossipjax.distributed.constants import PEER_LOST
from gossipjax.errors import USER_ERROR_EXIT
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


def started(*arguments):
  return subprocess.Popen(
    [sys.executable, '-c', PROGRAM, *arguments],
    cwd=program.ROOT,
    env=program.ENVIRONMENT,
    text=True,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', ['SIGINT', 'SIGTERM', 'SIGHUP'])
def test_one_signal_closes_and_ends_a_command_that_cannot_resume(name):
  number = signal.Signals[name]
  with started() as process:
    assert process.stdout.readline() == 'open\n'
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
  assert (process.returncode, out, err) == (128 + number, 'closed\n', '')


@pytest.mark.exhaustive
def test_a_terminated_fork_does_not_run_the_cleanup_of_its_parent():
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
def test_a_full_disk_without_a_path_is_reported_for_the_workdir(again, remedy):
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
def test_a_full_disk_ends_a_command_without_a_workdir_with_an_error():
  # Like `report`, which has no flag --workdir.
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
  ('more', 'expected'),
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
def test_the_rerun_command_has_as_many_processes_and_another_workdir(
  more, expected
):
  arguments = f'--distributed {more} --process_id=0 --config=my.py'.split()
  assert command_line.rerun_command(arguments) == expected


@pytest.mark.parametrize(
  ('again', 'given', 'folder', 'expected'),
  [
    ('--resume', [], 'runs/1', '--resume --workdir=runs/1'),
    ('the same command', [], '1', 'the same command with --workdir=1'),
    ('--resume', [], 'my run', "--resume '--workdir=my run'"),
    ('--resume', ['--workdir=1'], '1', '--resume'),
    (None, [], '1', None),
  ],
)
def test_the_command_to_continue_names_only_a_default_workdir(
  again, given, folder, expected, monkeypatch
):
  found = flags.FlagValues()
  flags.DEFINE_string('workdir', None, 'Where.', flag_values=found)
  found(['program', *given])
  found['workdir'].value = folder
  monkeypatch.setattr(console.flags, 'FLAGS', found)
  assert console._named(again) == expected


def test_the_rerun_command_keeps_all_values_of_the_config():
  arguments = (
    '--config my.py --config.workers 4 --config.link.latency_s -1 --audit '
    '--noconfig.overlap --workdir out --config.strategy.name=topk'
  )
  kept = command_line.rerun_command(arguments.split())
  assert kept.endswith(
    ' --config=my.py --config.workers=4 --config.link.latency_s=-1 '
    '--config.overlap=False --config.strategy.name=topk'
  )


GLOO = 'UNKNOWN: Gloo AllGather failed: Connection reset by peer'


@pytest.mark.parametrize(
  'error, shown, code',
  [
    (JaxRuntimeError('Gloo: connection timed out'), False, PEER_LOST),
    (ValueError(GLOO), False, PEER_LOST),
    (ValueError('a socket timed out'), True, PEER_LOST),
    (OSError('Gloo: connection timed out'), True, PEER_LOST),
    (TypeError('a bug'), True, 1),
  ],
)
def test_the_traceback_of_a_lost_peer_is_shown_unless_jax_raised_it(
  error, shown, code, monkeypatch, capsys
):
  codes = []
  monkeypatch.setattr(processes, 'distributed', lambda: True)
  monkeypatch.setattr(processes, 'leave', codes.append)
  processes.abandon(error)
  stderr = capsys.readouterr().err
  assert codes == [code]
  assert ('a peer or the link to it is gone (' in stderr) == (code == PEER_LOST)
  assert (f'{type(error).__name__}: {error}' in stderr) == shown


def test_a_mistake_that_the_first_process_finds_ends_all_with_its_code(
  monkeypatch,
):
  codes = []
  monkeypatch.setattr(processes, 'distributed', lambda: True)
  monkeypatch.setattr(processes, 'is_first', lambda: False)
  monkeypatch.setattr(processes, 'leave', codes.append)
  sent = processes.multihost_utils
  monkeypatch.setattr(sent, 'broadcast_one_to_all', lambda refused: True)
  processes.run_in_first(lambda: None)
  assert codes == [USER_ERROR_EXIT]


def test_the_error_for_resume_says_that_no_flag_is_needed(
  monkeypatch,
):
  found = flags.FlagValues()
  flags.DEFINE_string('workdir', None, 'Where.', flag_values=found)
  monkeypatch.setattr(flag_errors.flags, 'FLAGS', found)
  error = flags.UnrecognizedFlagError('resume')
  message = flag_errors.of_words(error, ['--resume'])
  assert message.endswith('the same --workdir continues without one.')


@pytest.mark.parametrize(
  'key, words',
  [
    ('strategy.selection.name', r'add --config\.variants\.t\.strategy\.name='),
    ('strategy.k', "topk has no argument 'k'; there are density,.* selection"),
    ('optimizer.momentum', r"variants\.t does not set 'optimizer'.* file"),
  ],
)
def test_a_variant_given_as_a_dict_takes_all_arguments(key, words, monkeypatch):
  config = ConfigDict({'variants': {'t': {'strategy': {'name': 'topk'}}}})
  monkeypatch.setattr(flag_errors, '_loaded', lambda _: config)
  path = f'variants.t.{key}'
  with pytest.raises(AttributeError) as error:
    operator.attrgetter(path)(config)
  assert re.search(
    words, flag_errors.of_file(error.value, [f'--config.{path}='])
  )


def test_a_strategy_that_a_config_file_does_not_take_is_named():
  code = 'def get_config():\n  pass\n\nget_config("gossip")\n'
  with pytest.raises(TypeError) as raised:
    exec(code, {})
  words = ['--config=configs/async_fashion_mnist.py:gossip']
  sentence = flag_errors.of_file(raised.value, words)
  assert sentence.startswith('get_config() of this config file takes no strat')
