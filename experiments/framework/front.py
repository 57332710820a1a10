"""The front of score against bytes, and who gets further seeds for it."""

from collections.abc import Mapping
from typing import Any

from experiments.framework import claim, margins, seed_statistics
from experiments.framework.best_rate import Tuned
from experiments.framework.seed_statistics import LOSS, PATH, known

DENSE = 'all_reduce'
NAMES = ('workload', 'strategy')
TENTH = 0.1  # Of the bytes.
CANDIDATES = 2  # Of a workload, at most.


def row(cell: tuple, tuned: Tuned) -> dict[str, Any]:
  """The row of a strategy on a workload."""
  return seed_statistics.row(seed_statistics.columns(NAMES, cell), tuned)


def _rows(workload: str, tuned: Mapping[str, Tuned]) -> list[dict[str, Any]]:
  return [row((workload, name), one) for name, one in tuned.items()]


def on_the_front(row: Mapping[str, Any], rows: claim.Rows) -> bool:
  """Whether no other row of the workload is better in both."""
  if not known(row[LOSS]) or not known(row[PATH]):
    return False
  column, sign, *_ = margins.measure(row['workload'])
  return not any(
    other[PATH] < row[PATH] and sign * other[column] > sign * row[column]
    for other in rows
    if other['workload'] == row['workload'] and known(other[LOSS])
  )


def cheap(rows: claim.Rows) -> claim.Rows:
  """Those of a workload that send at most a tenth of what all-reduce does."""
  most = [TENTH * row[PATH] for row in rows if row['strategy'] == DENSE]
  return [row for row in rows if most and row[PATH] <= most[0]]


def candidate(
  workload: str, strategy: str, more: Mapping[str, Tuned]
) -> dict[str, Any]:
  """The row of a candidate with all its seeds, beside all-reduce's.

  Args:
    workload, strategy: of the candidate.
    more: what `candidates` names, with these seeds.
  """
  mine = more[strategy]
  return {
    **seed_statistics.columns(NAMES, (workload, strategy)),
    'seeds': len(mine.runs),
    **margins.gain(mine, more[DENSE], workload, DENSE),
  }


def leaders(workload: str, first: Mapping[str, Tuned]) -> list[str]:
  """All-reduce and the strategies on the front.

  Args:
    workload: its name.
    first: a seed of each strategy.
  """
  rows = _rows(workload, first)
  best = [row['strategy'] for row in rows if on_the_front(row, rows)]
  return [*dict.fromkeys((DENSE, *best))]


def candidates(workload: str, first: Mapping[str, Tuned]) -> list[str]:
  """All-reduce, and those that may be as good with a tenth of its bytes: the
  best of the cheap ones; [] if none is within the margin.

  Args:
    workload: its name.
    first: as that of `leaders`.
  """
  gain = lambda name: margins.gain(first[name], first[DENSE], workload, DENSE)
  gains = {
    row['strategy']: gain(row['strategy'])[f'gain over {DENSE}']
    for row in cheap(_rows(workload, first))
  }
  least = -margins.measure(workload).margin
  near = [name for name, more in gains.items() if known(more) and more >= least]
  best = sorted(near, key=lambda name: -gains[name])[:CANDIDATES]
  return [DENSE, *best] if best else []
