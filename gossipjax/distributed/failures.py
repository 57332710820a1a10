"""Which of several processes failed first, and which hang."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from gossipjax.distributed.constants import PEER_LOST

# Likely causes of a signal.
_CAUSES: dict[int, str] = {
  signal.SIGKILL: ' (out of memory, or killed by someone)'
}
# Exit codes of a process that lost another one; JAX aborts.
_PEER_LOST_CODES = (PEER_LOST, -signal.SIGABRT)


def first_failure(
  running: Sequence[subprocess.Popen],
  silent: Callable[[], Sequence[int]] = tuple,
) -> tuple[int | None, list[int]]:
  """Waits until all processes have ended, or one fails or hangs.

  Args:
    running: the processes.
    silent: returns those that have sent nothing for too long.

  Returns:
    The process that failed first, None if none did; and those that hang.
  """
  while True:
    codes = [process.poll() for process in running]
    if ended := [i for i, code in enumerate(codes) if code]:
      # A process that lost its peer may be seen to end before that peer.
      return min(ended, key=lambda i: codes[i] in _PEER_LOST_CODES), []
    if None not in codes:
      return None, []
    if stuck := [i for i in silent() if codes[i] is None]:
      return stuck[0], stuck
    time.sleep(0.1)


def cause(running: Sequence[subprocess.Popen], failed: int) -> int:
  """The process to blame: one that lost a peer may end before that peer does.

  Args:
    running: the processes, all of which have ended or hang.
    failed: the one that was seen to end first.
  """
  codes = [process.poll() for process in running]
  others = [
    i for i, code in enumerate(codes) if code and code not in _PEER_LOST_CODES
  ]
  return others[0] if codes[failed] in _PEER_LOST_CODES and others else failed


def hanging(running: Sequence[subprocess.Popen], grace_s: float) -> list[int]:
  """Waits `grace_s` for all to end; returns those that did not."""
  until = time.monotonic() + grace_s
  for process in running:
    with contextlib.suppress(subprocess.TimeoutExpired):
      process.wait(max(0.0, until - time.monotonic()))
  return [i for i, process in enumerate(running) if process.poll() is None]


def is_lost(
  running: Sequence[subprocess.Popen], failed: int, stuck: list[int]
) -> bool:
  """Whether those that hang are to blame: yes if the one that failed only lost
  a peer, no if they merely wait for one that died by itself."""
  return bool(stuck) and (
    failed in stuck or running[failed].returncode in _PEER_LOST_CODES
  )


def sentence(
  running: Sequence[subprocess.Popen], failed: int, stuck: list[int]
) -> str:
  """Sentences for the user on the process that hangs, or that failed first."""
  ended = f'all {len(running)} have ended'
  code = running[failed].returncode
  if is_lost(running, failed, stuck):
    why = f'Process {", ".join(map(str, stuck))} did not answer any more'
  elif code < 0:
    why = f'Process {failed} died of {_named(-code)}{_CAUSES.get(-code, "")}'
  else:
    return f'Process {failed} ended with exit code {code}; {ended}.'
  return f'{why}; {ended}. --resume continues from the last checkpoint.'


def _named(number: int) -> str:
  try:
    return signal.Signals(number).name
  except ValueError:  # Real-time signals have no names.
    return f'signal {number}'
