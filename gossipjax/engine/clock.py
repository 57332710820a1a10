"""The clock of a run on several processes; it can be paused."""

import threading
import time

_OFFSET = time.time() - time.monotonic()


def now() -> float:
  """Seconds since 1970, from a steady clock that is set once, at the start of
  this process: the system's clock may be set back or forward later."""
  return _OFFSET + time.monotonic()


class Clock:
  """Seconds since a run began, without those in which it was paused.

  A paused worker finishes what it computes and begins nothing else, so that all
  states can be read at the same moment; meanwhile the clock stands. A worker
  that computed while its clock was paused waits for as long afterwards.
  """

  def __init__(self):
    """Starts the clock at 0."""
    self._lost, self._paused_at, self._last = now(), 0.0, 0.0
    self._open = threading.Event()
    self._open.set()
    self.idle = True  # Whether the worker waits in `check`.

  def __call__(self) -> float:
    at = now() if self._open.is_set() else self._paused_at
    self._last = max(self._last, at - self._lost)
    return self._last

  def pause(self, at: float) -> None:
    """Pauses the clock at `at`, the `now` of the process that asks for it."""
    self._paused_at = at
    self._open.clear()

  def resume(self, at: float) -> None:
    """Resumes the clock at `at`, the `now` of that process."""
    self._lost += at - self._paused_at
    self.idle = False
    self._open.set()

  def begin(self, at: float) -> None:
    """Sets the clock so that it showed 0 at `at`."""
    self._lost, self._last = at, 0.0

  def check(self) -> None:
    """Waits while the clock is paused, then for as long as this worker still
    computed while it was paused."""
    owed = 0.0 if self._open.is_set() else now() - self._paused_at
    while not self._open.is_set():
      self.idle = True
      self._open.wait(0.1)  # It may be paused again before this thread wakes.
    self.idle = False
    if owed > 0:
      self.sleep_until(self() + owed)

  def sleep_until(self, then: float) -> None:
    """Waits until the clock shows `then`."""
    self.check()
    while (left := then - self()) > 0:
      time.sleep(min(left, 0.02))
      self.check()
