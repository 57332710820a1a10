"""How commands end on a signal."""

import signal
import subprocess
import sys

import pytest

from tests.support import program

PROGRAM = """
import contextlib, signal, time
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
    print('open', flush=True)
    time.sleep(60)

app.run(console.guarded(main, again=None))
"""


@pytest.mark.parametrize('name', ['SIGINT', 'SIGTERM', 'SIGHUP'])
def test_one_signal_ends_what_nothing_continues_and_closes_what_is_open(name):
  number = signal.Signals[name]
  with subprocess.Popen(
    [sys.executable, '-c', PROGRAM],
    cwd=program.ROOT,
    env=program.ENVIRONMENT,
    text=True,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
  ) as process:
    assert process.stdout.readline() == 'open\n'
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
  assert (process.returncode, out, err) == (128 + number, 'closed\n', '')
