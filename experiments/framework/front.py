"""The Pareto front of score against bytes, and the methods with more seeds."""

from collections.abc import Mapping
from typing import Any

from experiments.framework import claim, margins, seed_statistics
from experiments.framework.best_rate import Tuned
from experiments.framework.seed_statistics import LOSS, PATH, known

DENSE = 'all_reduce'
NAMES = ('workload', 'strategy')
TENTH = 0.1  # Share of all-reduce's bytes up to which a method is cheap.
CANDIDATES = 2  # Largest number of cheap methods of a workload.


def row(cell: tuple, tuned: Tuned) -> dict[str, Any]:
  """The row of a strategy on a workload."""
  return seed_statistics.row(seed_statistics.columns(NAMES, cell), tuned)


def _rows(workload: str, tuned: Mapping[str, Tuned]) -> list[dict[str, Any]]:
  return [row((workload, name), one) for name, one in tuned.items()]


def on_the_front(row: Mapping[str, Any], rows: claim.Rows) -> bool:
  """Whether no other row of the workload has a better score with as many bytes
  or fewer; False if the row's loss or bytes are unknown."""
  if not known(row[LOSS]) or not known(row[PATH]):
    return False
  column, sign, *_ = margins.score_metric(row['workload'])
  return not any(
    other[PATH] <= row[PATH] and sign * other[column] > sign * row[column]
    for other in rows
    if other['workload'] == row['workload'] and known(other[LOSS])
  )


def cheap(rows: claim.Rows) -> claim.Rows:
  """Returns a workload's rows with at most a tenth of all-reduce's bytes."""
  limit = [TENTH * row[PATH] for row in rows if row['strategy'] == DENSE]
  return [row for row in rows if limit and row[PATH] <= limit[0]]


def candidate(
  workload: str, strategy: str, more: Mapping[str, Tuned]
) -> dict[str, Any]:
  """The row of a candidate with all its seeds, beside all-reduce's.

  Args:
    workload, strategy: of the candidate.
    more: `Tuned` with all seeds, by the names that `candidates` returned.
  """
  mine = more[strategy]
  return {
    **seed_statistics.columns(NAMES, (workload, strategy)),
    'seeds': len(mine.runs),
    **margins.gain(mine, more[DENSE], workload, DENSE),
  }


def leaders(workload: str, first: Mapping[str, Tuned]) -> list[str]:
  """Returns all-reduce and the strategies on the front.

  Args:
    workload: its name.
    first: `Tuned` with one seed, by strategy.
  """
  rows = _rows(workload, first)
  best = [row['strategy'] for row in rows if on_the_front(row, rows)]
  return [*dict.fromkeys((DENSE, *best))]


def candidates(workload: str, first: Mapping[str, Tuned]) -> list[str]:
  """Returns all-reduce and up to CANDIDATES cheap strategies, the best that may
  be as good with a tenth of its bytes; [] if none is within the margin.

  Args:
    workload: its name.
    first: as in `leaders`.
  """
  gain = lambda name: margins.gain(first[name], first[DENSE], workload, DENSE)
  gains = {
    row['strategy']: gain(row['strategy'])[f'gain over {DENSE}']
    for row in cheap(_rows(workload, first))
  }
  least = -margins.score_metric(workload).margin
  near = [
    name for name, value in gains.items() if known(value) and value >= least
  ]
  best = sorted(near, key=lambda name: -gains[name])[:CANDIDATES]
  return [DENSE, *best] if best else []
