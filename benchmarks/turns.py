"""Two things take turns; the median of their ratios is what counts."""

import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple


class Cost(NamedTuple):
  """Of one turn; CPU seconds are of all threads, and do not mind the others
  on a busy machine as much as seconds do."""

  wall_s: float
  cpu_s: float


def _cost(work: Iterator[Any]) -> Cost:
  wall, cpu = time.perf_counter(), time.process_time()
  next(work)
  return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def take(
  ours: Iterator[Any], theirs: Iterator[Any], turns: int
) -> tuple[list[Cost], list[Cost]]:
  """Costs of every turn, after one each that compiles and warms up.

  Args:
    ours: does a fixed amount of work whenever it is asked for the next.
    theirs: the same amount.
    turns: of each; who begins alternates.
  """
  pair, costs = (ours, theirs), ([], [])
  for work in pair:
    next(work)
  for turn in range(turns):
    for i in (0, 1) if turn % 2 == 0 else (1, 0):
      costs[i].append(_cost(pair[i]))
  return costs


def report(name: str, ours: list[Cost], theirs: list[Cost]) -> None:
  """Prints the median of the ratios, and in brackets their quartiles."""
  found = []
  for kind in Cost._fields:
    ratios = [
      getattr(a, kind) / getattr(b, kind)
      for a, b in zip(ours, theirs, strict=True)
    ]
    low, middle, high = statistics.quantiles(ratios, n=4)
    found.append(f'{kind} {middle:.3f} ({low:.3f} to {high:.3f})')
  print(
    f'{name} over the same by hand, medians of {len(ours)} turns: '
    f'{", ".join(found)}',
    flush=True,
  )
