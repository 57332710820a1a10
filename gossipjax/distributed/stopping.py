"""Stops several processes after the same step; ends one whose steps hang."""

import signal
import sys
import threading
import time

import jax
from jax.experimental import multihost_utils

from gossipjax.distributed import processes
from gossipjax.distributed.constants import PEER_LOST


class Stop:
  """Whether to stop after this step: the same answer in every process.

  JAX tells all processes of a SIGTERM to any of them, and all stop at the same
  step. A call also shows that steps go on: a watchdog ends a process in which
  no step has finished for --step_timeout_s, because collectives wait for ever.
  """

  received = signal.SIGTERM

  def __init__(self):
    self._calls, self._called_at = 0, time.monotonic()
    threading.Thread(target=self._watch, daemon=True).start()

  def __call__(self) -> bool:
    self._calls, self._called_at = self._calls + 1, time.monotonic()
    return multihost_utils.reached_preemption_sync_point(self._calls)

  def _watch(self) -> None:
    timeout_s = processes.step_timeout_s()
    while time.monotonic() - self._called_at < timeout_s:
      time.sleep(0.5)
    print(
      f'Process {jax.process_index()}: no step finished for {timeout_s} s; a '
      'peer or the link hangs, or a download or compiling takes longer than '
      '--step_timeout_s. --resume continues.',
      file=sys.stderr,
    )
    processes.leave(PEER_LOST)
