"""One process writes into a workdir at a time; a dead one holds no lock."""

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from gossipjax.errors import UserError
from gossipjax.results import lock

HOLD_LOCK = """
import pathlib, sys, time
from gossipjax.results import lock
with lock.hold(pathlib.Path(sys.argv[1])):
  print('held', flush=True)
  time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
  process = subprocess.Popen(
    [sys.executable, '-c', HOLD_LOCK, str(tmp_path)], stdout=subprocess.PIPE
  )
  assert process.stdout.readline() == b'held\n'
  yield process
  process.kill()
  process.communicate()


def test_an_error_names_the_process_that_holds_the_lock(holder, tmp_path):
  with (
    pytest.raises(
      UserError, match=f'process {holder.pid} on host {socket.gethostname()};'
    ),
    lock.hold(tmp_path),
  ):
    pass
  for damaged in (b'\xff', b'[' * 100_000):
    (tmp_path / '.holder').write_bytes(damaged)
    with (
      pytest.raises(UserError, match='by another process;'),
      lock.hold(tmp_path),
    ):
      pass


def test_the_process_id_of_a_dead_writer_is_ignored(holder, tmp_path):
  written = (tmp_path / '.holder').read_text()
  dead = subprocess.Popen(['true'])
  dead.wait()
  (tmp_path / '.holder').write_text(
    written.replace(str(holder.pid), str(dead.pid))
  )
  late = threading.Timer(0.3, (tmp_path / '.holder').write_text, [written])
  late.start()
  with (
    pytest.raises(UserError, match=f'by process {holder.pid} on'),
    lock.hold(tmp_path),
  ):
    pass
  late.join()


def test_a_killed_writer_leaves_the_lock_free(holder, tmp_path):
  os.kill(holder.pid, signal.SIGKILL)
  holder.wait()
  assert (tmp_path / '.holder').exists()
  with lock.hold(tmp_path):
    assert str(os.getpid()) in (tmp_path / '.holder').read_text()
  assert not (tmp_path / '.holder').exists()
