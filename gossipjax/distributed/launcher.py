"""Starts several processes on this host and ends them together.

Their output comes through with the number of the process in front. SIGINT and
SIGTERM are passed on. When one process fails, all end.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence

from gossipjax.distributed import allocator

LOST = 3  # Exit code of a process whose peer or link is gone.
GRACE_S = 10  # For the other processes to end, once one has.
# What C++ leaves behind when it gives up; its reason stands before it.
_STACK = re.compile(r'\s+@\s+0x[0-9a-f]+ |\*\*\* Check failure stack trace')


def free_port() -> int:
  """A free TCP port of this host."""
  with socket.socket() as listener:
    listener.bind(('127.0.0.1', 0))
    return listener.getsockname()[1]


def command(
  arguments: Sequence[str],
  processes: int,
  process: int,
  coordinator: str,
) -> list[str]:
  """The command line of one of several processes that train together.

  Args:
    arguments: flags of `python -m gossipjax run`.
    processes: how many there are.
    process: the number of this one, from 0.
    coordinator: host:port of process 0.
  """
  return [
    sys.executable,
    '-u',
    '-m',
    'gossipjax',
    'run',
    '--distributed',
    f'--coordinator={coordinator}',
    f'--num_processes={processes}',
    f'--process_id={process}',
    *arguments,
  ]


def run(commands: Iterable[Sequence[str]], grace_s: float = GRACE_S) -> int:
  """Runs commands together until all have ended; when one fails, ends all.

  Returns:
    0, or the exit code of the first that failed.
  """
  # In their own sessions: ctrl-C in a terminal reaches this process only.
  running = [
    subprocess.Popen(
      c,
      stdout=subprocess.PIPE,
      start_new_session=True,
      stderr=subprocess.STDOUT,
      env=allocator.environment() | os.environ,
    )
    for c in commands
  ]
  echoes = [
    threading.Thread(target=_echo, args=pair, daemon=True)
    for pair in enumerate(running)
  ]
  for echo in echoes:
    echo.start()
  signals = _Signals(running)
  try:
    failed = _first_failure(running)
    stuck = [] if failed is None else _end(running, grace_s)
  finally:
    for process in running:
      process.kill()
  for echo in echoes:
    echo.join()
  if failed is None:
    return 0
  if not signals.received:
    print(
      f'{_why(running, failed, stuck)}; all {len(running)} have ended.',
      file=sys.stderr,
    )
  code = running[failed].returncode
  return code if code > 0 else 128 - code


class _Signals:
  """Passes the first signal on to all processes; a second one kills them."""

  def __init__(self, running: Sequence[subprocess.Popen]):
    self.received, self._running = False, running
    for number in (signal.SIGINT, signal.SIGTERM):
      signal.signal(number, self._receive)

  def _receive(self, number, frame) -> None:
    del number, frame
    for process in self._running:
      process.send_signal(signal.SIGKILL if self.received else signal.SIGTERM)
    self.received = True


def _echo(number: int, process: subprocess.Popen) -> None:
  for line in process.stdout:
    text = line.decode(errors='replace').rstrip('\n')
    if _STACK.match(text):
      continue
    with contextlib.suppress(BrokenPipeError):
      print(f'[{number}] {text}', flush=True)


def _first_failure(running: Sequence[subprocess.Popen]) -> int | None:
  """Waits for the end; the process that failed first, None if none did."""
  while True:
    codes = [process.poll() for process in running]
    if ended := [i for i, code in enumerate(codes) if code]:
      # A process that lost its peer may be seen to end before that peer.
      return min(ended, key=lambda i: codes[i] == LOST)
    if None not in codes:
      return None
    time.sleep(0.1)


def _end(running: Sequence[subprocess.Popen], grace_s: float) -> list[int]:
  """Waits `grace_s` for all to end; returns those that did not."""
  until = time.monotonic() + grace_s
  for process in running:
    with contextlib.suppress(subprocess.TimeoutExpired):
      process.wait(max(0.0, until - time.monotonic()))
  return [i for i, process in enumerate(running) if process.poll() is None]


def _why(
  running: Sequence[subprocess.Popen], failed: int, stuck: list[int]
) -> str:
  """A sentence on the process that hangs, or that failed first."""
  if stuck:
    return f'Process {", ".join(map(str, stuck))} did not answer any more'
  code = running[failed].returncode
  if code < 0:
    return f'Process {failed} died of {signal.Signals(-code).name}'
  return f'Process {failed} ended with exit code {code}'
