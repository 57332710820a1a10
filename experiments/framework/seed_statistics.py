"""What the runs of a claim say: by cell, over seeds.

Runs are kept by key, the cell's parts and then the seed: `(*cell, seed)`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gossipjax.errors import UserError

Runs = Mapping[tuple, dict[str, Any]]  # See `evidence.run`.


def scores(
  runs: Runs, cell: tuple, field: str = 'test_accuracy'
) -> dict[int, float]:
  """By seed, what the runs of a cell ended with; NaN if they diverged."""
  return {
    key[-1]: last(run).get(field, np.nan)
    for key, run in runs.items()
    if key[:-1] == cell
  }


def last(run: Mapping[str, Any]) -> dict[str, Any]:
  """The last record, {} of a run that diverged."""
  return {} if run.get('diverged') else run['records'][-1]


def difference(runs: Runs, a: tuple, b: tuple) -> tuple[float, float]:
  """Points of accuracy that cell a is above b: mean over their common seeds,
  and its standard error (NaN for one seed)."""
  ours, theirs = scores(runs, a), scores(runs, b)
  found = 100 * np.array([ours[s] - theirs[s] for s in ours if s in theirs])
  error = found.std(ddof=1) / len(found) ** 0.5 if len(found) > 1 else np.nan
  return (float(found.mean()) if len(found) else np.nan), float(error)


def told(gain: float, error: float) -> str:
  """A difference, with its standard error if it is known."""
  if np.isnan(gain):
    return 'unknown (a seed diverged)'
  return f'{gain:+.2f} ' + (
    '(one seed)' if np.isnan(error) else f'+- {error:.2f}'
  )


def extent(runs: Runs, wanted: int) -> str:
  """A sentence on how many of the runs that were wanted there are."""
  minutes = sum(found['took_s'] for found in runs.values()) / 60
  rest = (
    ''
    if len(runs) == wanted
    else (' The others had no time; the same command goes on with them.')
  )
  return (
    f'{len(runs)} of {wanted} runs are in the table; they took '
    f'{minutes:.0f} minutes, tuning not counted.{rest}'
  )


def rows(runs: Runs, names: Sequence[str]) -> list[dict[str, Any]]:
  """A row per cell, means over its seeds; of what was told, the second half.

  Args:
    names: of the parts of a cell.

  Raises:
    UserError: there is no run.
  """
  if not runs:
    raise UserError('--minutes is too short: no run has finished.')
  groups: dict[tuple, list] = {}
  for key, found in runs.items():
    groups.setdefault(key[:-1], []).append(found)
  told = list(
    dict.fromkeys(
      name
      for r in runs.values()
      for line in r['told']
      for name in line
      if name != 'step'
    )
  )
  return [
    dict(zip(names, cell, strict=True)) | _row(group, told)
    for cell, group in groups.items()
  ]


def _row(group: list[dict[str, Any]], told: list[str]) -> dict[str, Any]:
  ends = [end for end in map(last, group) if end]
  accuracy = 100 * np.array([end['test_accuracy'] for end in ends])
  lines = [
    line for found in group for line in found['told'][len(found['told']) // 2 :]
  ]
  return {
    'seeds': len(group),
    'rate': group[0]['config']['optimizer']['learning_rate'],
    'diverged': len(group) - len(ends),
    'accuracy %': f'{accuracy.mean():.2f}' if ends else np.nan,
    'sd': f'{accuracy.std(ddof=1):.2f}' if ends[1:] else None,
    'loss': _mean(end['test_loss'] for end in ends),
    'sent a step': round(
      _mean(max(end['bytes_sent']) / end['step'] for end in ends)
    )
    if ends
    else None,
    **{
      name: _mean(line[name] for line in lines) if lines else None
      for name in told
    },
  }


def _mean(numbers: Iterable[float]) -> float:
  found = list(numbers)
  return float(np.mean(found)) if found else np.nan
