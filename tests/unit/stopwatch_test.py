"""Seconds of training steps."""

import pytest

from gossipjax.distributed.interface_counters import Meter
from gossipjax.training import loop


@pytest.fixture
def clock(monkeypatch):
  """Seconds that pass only when they are added to `now`."""
  found = {'now': 100.0}
  monkeypatch.setattr(loop.time, 'perf_counter', lambda: found['now'])
  return found


def timed(clock, before, *intervals):
  """Seconds of all intervals; a first step takes 9 s, the others 2 s."""
  watch, total, first = loop.Stopwatch(Meter(), before), 0.0, True
  for steps in intervals:
    for _ in range(steps):
      watch.start()
      clock['now'] += 9.0 if first else 2.0
      watch.count()
      first = False
    seconds, rate, _ = watch.stop()
    assert rate in (None, 0.5)
    total += seconds
  return total


def test_only_the_first_step_of_a_run_is_left_out_despite_resumptions(clock):
  whole = timed(clock, 0, 4, 4, 4)
  assert whole == 2.0 * 11
  assert timed(clock, 0, 4) + timed(clock, 4, 4) + timed(clock, 8, 4) == whole
  assert timed(clock, 0, 4) + timed(clock, 4, 1, 7) == whole
