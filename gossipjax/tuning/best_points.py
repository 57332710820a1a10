"""Chooses the best point of each variant, and reports all points."""

import statistics
from collections.abc import Mapping, Sequence

from gossipjax.comparison import markup
from gossipjax.errors import UserError
from gossipjax.results import workdir
from gossipjax.results.standard_error import deviation
from gossipjax.tuning import grid
from gossipjax.tuning.trials import Row


def by_point(
  rows: Sequence[Row], keys: Sequence[str], metric: str
) -> list[Row]:
  """One row per variant and point: the mean over seeds, and the spread.

  The mean is None where a seed diverged.
  """
  point = lambda row: {key: row.get(key) for key in ('variant', *keys)}
  seeds: dict[str, list[Row]] = {}
  for row in rows:  # By text, since a value may be a list.
    seeds.setdefault(str(point(row)), []).append(row)
  result = []
  for group in seeds.values():
    scores = [r[metric] for r in group if not r['diverged']]
    complete = len(scores) == len(group)
    result.append(
      {
        **point(group[0]),
        metric: statistics.fmean(scores) if complete else None,
        'sd over seeds': deviation(scores) if scores[1:] else None,
        'seeds': len(group),
        'diverged': len(group) - len(scores),
      }
    )
  return result


def choose(
  rows: Sequence[Row],
  values: grid.Grid,
  metric: str,
  higher: Sequence[str] = (),
) -> dict[str, grid.Point]:
  """Chooses the best point of each variant; of equal ones, the first.

  Args:
    rows: of trials.
    values: the grid.
    metric: 'validation_SCORE'.
    higher: names of scores of which large values are good, besides accuracies.
  """
  points, chosen = by_point(rows, list(values), metric), {}
  for variant in dict.fromkeys(row['variant'] for row in rows):
    tried = [p for p in points if p['variant'] == variant]
    good = [p for p in tried if p[metric] is not None]
    if not good:
      raise UserError(
        f'{variant} diverged at every point of the grid; add '
        'smaller values of optimizer.learning_rate.'
      )
    name = metric.removeprefix('validation_')
    pick = max if name in higher or 'accuracy' in name else min
    best_point = pick(good, key=lambda p: p[metric])
    # A key that is None at all points is not the variant's; else None counts.
    chosen[variant] = {
      key: best_point[key]
      for key in values
      if any(point[key] is not None for point in tried)
    }
  return chosen


def markdown(
  rows: Sequence[Row],
  values: grid.Grid,
  metric: str,
  chosen: Mapping[str, grid.Point],
  doubts: Sequence[str] = (),
) -> str:
  """The text of trials.md: chosen points, doubts about them, all points."""
  points = by_point(rows, list(values), metric)
  picked = [
    {
      'variant': variant,
      **{k: point.get(k) for k in values},
      'points tried': sum(p['variant'] == variant for p in points),
    }
    for variant, point in chosen.items()
  ]
  listed = ''.join(f'- {doubt}\n' for doubt in doubts)
  return (
    f'# Equal tuning\n{NOTE.format(metric=metric)}\n'
    f'{_table(picked, values, metric)}\n\n{listed}\n## Points\n\n'
    f'{_table(points, values, metric)}\n\ntrials.csv has every trial; commit '
    f'{workdir.provenance()["commit"]}.\n'
  )


def _table(rows: Sequence[Row], values: grid.Grid, metric: str) -> str:
  """Rows with the grid's values in full, since near ones may be compared."""
  full = lambda row: {k: str(row[k]) for k in values if row[k] is not None}
  score = lambda row: (
    {} if row.get(metric) is None else {metric: f'{row[metric]:.6g}'}
  )
  text_keys = [k for k in values if any(isinstance(r[k], str) for r in rows)]
  formatted = [row | full(row) | score(row) for row in rows]
  return markup.of_rows(formatted, ['variant', *text_keys])


NOTE = """
Each variant tried as many points of the same grid (fewer only where its own
keys make fewer), with the same seeds, on a part of the training set. The best
mean {metric} over seeds is chosen; a point at which a seed diverged is not.
"""
