"""Stops several processes after the same step; ends one whose steps hang."""

import os
import signal
import sys
import threading
import time
from typing import Any

import jax
from jax.experimental import multihost_utils

from gossipjax.distributed import processes
from gossipjax.distributed.constants import PEER_LOST


class Stop:
  """Whether to stop after this step: the same answer in every process.

  JAX tells all processes of a SIGTERM to any of them, and all stop at the same
  step. A call also shows that steps go on: until `watch_no_more`, a watchdog
  ends a process in which nothing has finished for --step_timeout_s, because
  collectives wait for ever.
  """

  received = signal.SIGTERM
  _finished_at, _watched = 0.0, False  # Of the process.

  def __init__(self):
    self._calls, Stop._watched = 0, True
    finished()
    threading.Thread(target=_watch, daemon=True).start()

  def __call__(self) -> bool:
    self._calls += 1
    finished()
    return multihost_utils.reached_preemption_sync_point(self._calls)


def terminate(number: int, frame: Any) -> None:
  """Handles a signal as SIGTERM; a second one ends this process at once."""
  del frame
  signal.signal(number, signal.SIG_DFL)
  os.kill(os.getpid(), signal.SIGTERM)


def finished() -> None:
  """Tells the watchdog that a check, a step, a record or a checkpoint ended."""
  Stop._finished_at = time.monotonic()


def watch_no_more() -> None:
  """Ends the watchdog, since all trainings are over."""
  Stop._watched = False


def _watch() -> None:
  timeout_s = processes.step_timeout_s()
  while Stop._watched and time.monotonic() - Stop._finished_at < timeout_s:
    time.sleep(0.5)
  if not Stop._watched:
    return
  print(
    f'Process {jax.process_index()}: no step finished for {timeout_s} s; a '
    'peer or the link hangs, or a download, compiling, an evaluation or a '
    'checkpoint takes longer than --step_timeout_s. --resume continues.',
    file=sys.stderr,
  )
  processes.leave(PEER_LOST)
