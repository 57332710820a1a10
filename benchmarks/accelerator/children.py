"""Runs processes, and ends them together with all that they have started.

Tests and trainings start processes of their own, which hold the device's memory
as long as they live.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence


def run(commands: Sequence[Sequence[str]], timeout: float) -> list[int | None]:
  """Runs commands in parallel, each in its own session.

  Args:
    commands: words of each.
    timeout: seconds, for all of them together.

  Returns:
    The exit codes: below 0 for an end by a signal, None for a timeout.
  """
  deadline, codes = time.monotonic() + timeout, []
  with contextlib.ExitStack() as stack:
    started = [stack.enter_context(_started(c)) for c in commands]
    for child in started:
      try:
        codes.append(child.wait(max(0.0, deadline - time.monotonic())))
      except subprocess.TimeoutExpired:
        codes.append(None)
  return codes


@contextlib.contextmanager
def _started(command: Sequence[str]) -> Iterator[subprocess.Popen]:
  child = subprocess.Popen(command, start_new_session=True)
  try:
    yield child
  finally:  # Also when this process is interrupted.
    end_group(child.pid)
    child.wait()


def end_group(leader: int) -> None:
  """Kills what is left of a process group."""
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.killpg(leader, signal.SIGKILL)


def end_mine(code: int) -> None:
  """Ends this process at once, and all of its group if it leads one."""
  if os.getpgrp() == os.getpid() == os.getsid(0):
    end_group(os.getpid())
  os._exit(code)
