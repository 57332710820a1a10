"""Measures how much other programs use the cores while a claim is timed.

While the processes of a training run, their load cannot be told from that of
other programs. So other programs are measured just before and just after.
"""

import os
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

Found = TypeVar('Found')

# Columns of a table, and the values above which the machine was busy.
OVERRUN, MOST_OVERRUN = 'computing, measured / asked for', 1.05
OTHERS, MOST_OTHERS = 'share of the cores that others used', 0.05
LOOKS, LOOK_S = 4, 1.0  # The least busy counts: processes take time to end.
STAT = pathlib.Path('/proc/stat')
IDLE, STOLEN = (3, 4), 7  # Fields: idle and waiting for a disk; stolen.


def read() -> list[int]:
  """Returns ticks of all cores since booting, by field of /proc/stat."""
  return [int(word) for word in STAT.read_text().split('\n', 1)[0].split()[1:]]


def busy(since: Sequence[int], until: Sequence[int]) -> float:
  """The share of the cores that was not idle between two readings."""
  ticks = [b - a for a, b in zip(since, until, strict=True)][: STOLEN + 1]
  return 1 - sum(ticks[field] for field in IDLE) / max(1, sum(ticks))


def stolen(since: Sequence[int], until: Sequence[int]) -> float:
  """The share of the cores that the host gave to other machines."""
  ticks = [b - a for a, b in zip(since, until, strict=True)][: STOLEN + 1]
  return ticks[STOLEN] / max(1, sum(ticks))


def look() -> float:
  """Returns the least share of the cores in use while this process sleeps."""
  shares = []
  for _ in range(LOOKS):
    since = read()
    time.sleep(LOOK_S)
    shares.append(busy(since, read()))
  return min(shares)


def beside(measure: Callable[[], Found]) -> tuple[Found, float]:
  """Runs a measurement and estimates the share of the cores others used.

  Returns:
    What the measurement returned, and the largest of three shares (0 to 1):
    busy before it, busy after it, and stolen by the host in the meantime.
  """
  before, since = look(), read()
  found = measure()
  taken = stolen(since, read())
  return found, max(before, taken, look())


def meanwhile(measure: Callable[[], Found]) -> tuple[Found, float]:
  """Runs a measurement; returns its result and the share of the cores that
  others used in the meantime.

  Args:
    measure: runs in this process alone, whose CPU seconds are known.
  """
  since, own_s = read(), time.process_time()
  found = measure()
  ticks = [b - a for a, b in zip(since, read(), strict=True)]
  own_ticks = (time.process_time() - own_s) * os.sysconf('SC_CLK_TCK')
  total = max(1, sum(ticks[: STOLEN + 1]))
  return found, max(0.0, 1 - (sum(ticks[f] for f in IDLE) + own_ticks) / total)


def doubt(rows: Iterable[Mapping[str, Any]]) -> str:
  """Returns why rows with these two columns allow no verdict, '' if they do."""
  busy = any(
    (row[OVERRUN] or 0) > MOST_OVERRUN or row[OTHERS] > MOST_OTHERS
    for row in rows
  )
  return 'the machine was busy' if busy else ''
