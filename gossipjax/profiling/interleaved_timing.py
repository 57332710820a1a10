"""Times several calls in alternating turns.

On a machine that other programs use as well, the calls of one turn are slowed
alike, so that ratios within a turn are reproducible where seconds are not.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax


class Cost(NamedTuple):
  """What one call took.

  Attributes:
    wall_s: seconds until its result was ready.
    cpu_s: processor seconds of all threads of this process; other programs
      change them less than `wall_s`.
  """

  wall_s: float
  cpu_s: float


def time_in_turns(
  calls: Mapping[str, Callable[[], Any]],
  turns: int,
  before: Callable[[str], None] = lambda name: None,
) -> dict[str, list[Cost]]:
  """The costs of each call in each turn.

  An additional first turn, in which programs are compiled, is not returned.
  Every second turn goes through the calls in the reverse order.

  Args:
    calls: by name; a call ends when the arrays that it returns are ready.
    turns: of each call, at least 1.
    before: called with the name before each call, and not timed: prepares
      arguments, or waits for other processes.

  Returns:
    Per name one cost per turn.
  """
  costs = {name: [] for name in calls}
  for turn in range(turns + 1):
    for name in [*calls] if turn % 2 else [*reversed([*calls])]:
      before(name)
      cost = _cost(calls[name])
      if turn:
        costs[name].append(cost)
  return costs


def _cost(call: Callable[[], Any]) -> Cost:
  wall_s, cpu_s = time.perf_counter(), time.process_time()
  jax.block_until_ready(call())
  return Cost(time.perf_counter() - wall_s, time.process_time() - cpu_s)


def median_seconds(
  calls: Mapping[str, Callable[[], Any]],
  turns: int,
  before: Callable[[str], None] = lambda name: None,
) -> dict[str, float]:
  """The median wall seconds of each call; arguments as `time_in_turns`."""
  return {
    name: statistics.median(cost.wall_s for cost in costs)
    for name, costs in time_in_turns(calls, turns, before).items()
  }
