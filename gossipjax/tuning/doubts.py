"""Reasons to doubt the points that tuning chose."""

from collections.abc import Mapping, Sequence

from gossipjax.comparison import unlearned
from gossipjax.tasks.task import is_higher
from gossipjax.tuning import grid
from gossipjax.tuning.trials import Row, Trial


def of(
  chosen: Mapping[str, grid.Point],
  trials: Sequence[Trial],
  rows: Sequence[Row],
  metric: str,
  higher: Sequence[str] = (),
) -> list[str]:
  """Sentences on what may be wrong with the chosen points.

  Args:
    chosen: points by variant.
    trials: all of them, finished.
    rows: of the trials.
    metric, higher: see `best_points.choose`.
  """
  column = metric.replace('validation_', 'test_', 1)
  useless = learned_nothing(chosen, trials, column, is_higher(column, higher))
  return useless + at_an_edge(chosen, rows)


def at_an_edge(
  chosen: Mapping[str, grid.Point], rows: Sequence[Row]
) -> list[str]:
  """A sentence for each chosen number at an end of what its variant tried."""
  tried = lambda name, key: [r.get(key) for r in rows if r['variant'] == name]
  return [
    f'{variant}: {key}={value} is at an edge of the grid; the best may lie '
    'beyond.'
    for variant, point in chosen.items()
    for key, value in point.items()
    if isinstance(value, int | float)
    and not isinstance(value, bool)
    and value in _ends(tried(variant, key))
  ]


def _ends(values: Sequence[object]) -> tuple[float, float]:
  numbers = [v for v in values if isinstance(v, int | float)]
  return min(numbers), max(numbers)


def learned_nothing(
  chosen: Mapping[str, grid.Point],
  trials: Sequence[Trial],
  column: str,
  higher: bool,
) -> list[str]:
  """A sentence for each variant that learned nothing even at its best point."""
  found = []
  for variant, point in chosen.items():
    folders = (
      t.folder for t in trials if (t.variant, t.point) == (variant, point)
    )
    if why := unlearned.in_folders(folders, column, higher):
      found.append(
        f'{variant} learned little or nothing at its best point: {why}; widen '
        'the grid, or train for more steps.'
      )
  return found
