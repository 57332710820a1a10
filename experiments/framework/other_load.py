"""Whether others use this machine while a claim measures seconds.

What the processes of a training do cannot be told from what others do:
others are looked for just before them and just after them.
"""

import os
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

Found = TypeVar('Found')

# Columns of a table, above whose numbers the machine was busy.
OVERRUN, MOST_OVERRUN = 'computing, measured / asked for', 1.05
OTHERS, MOST_OTHERS = 'share of the cores that others used', 0.05
LOOKS, LOOK_S = 4, 1.0  # The calmest counts: processes that end take a moment.
STAT = pathlib.Path('/proc/stat')
IDLE, STOLEN = (3, 4), 7  # Fields: idle and waiting for a disk; stolen.


def read() -> list[int]:
  """Ticks of all cores since the machine began, by field of /proc/stat."""
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
  """The share of the cores that is used while this process sleeps."""
  seen = []
  for _ in range(LOOKS):
    since = read()
    time.sleep(LOOK_S)
    seen.append(busy(since, read()))
  return min(seen)


def beside(measure: Callable[[], Found]) -> tuple[Found, float]:
  """What a measurement returns, and the share of the cores that others used.

  Returns:
    the largest of three shares: busy before it, busy after it, and what the
    host took from this machine meanwhile. It lies between 0 and 1.
  """
  before, since = look(), read()
  found = measure()
  taken = stolen(since, read())
  return found, max(before, taken, look())


def meanwhile(measure: Callable[[], Found]) -> tuple[Found, float]:
  """What a measurement returns, and the share of the cores that others used.

  Args:
    measure: in this process alone, whose own seconds are known.
  """
  since, own_s = read(), time.process_time()
  found = measure()
  ticks = [b - a for a, b in zip(since, read(), strict=True)]
  own = (time.process_time() - own_s) * os.sysconf('SC_CLK_TCK')
  every = max(1, sum(ticks[: STOLEN + 1]))
  return found, max(0.0, 1 - (sum(ticks[f] for f in IDLE) + own) / every)


def doubt(rows: Iterable[Mapping[str, Any]]) -> str:
  """Why rows with these two columns cannot be judged; '' if they can."""
  busy = any(
    (row[OVERRUN] or 0) > MOST_OVERRUN or row[OTHERS] > MOST_OTHERS
    for row in rows
  )
  return 'the machine was busy' if busy else ''
