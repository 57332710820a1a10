"""Means, standard errors and paired differences of a claim's runs, over seeds.

Runs are kept by key, the cell's parts and then the seed: `(*cell, seed)`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gossipjax.errors import UserError

Runs = Mapping[tuple, dict[str, Any]]  # See `single_run.make`.
ERROR = ', standard error'  # Behind a column's name.
DEVIATION = 'held-out accuracy %, standard deviation'


def scores(runs: Runs, cell: tuple, field: str = 'test_accuracy') -> pd.Series:
  """By seed, what the runs of a cell ended with; NaN where one diverged."""
  return pd.Series(
    {
      key[-1]: last(run).get(field, np.nan)
      for key, run in runs.items()
      if key[:-1] == cell
    },
    dtype=float,
  )


def last(run: Mapping[str, Any]) -> dict[str, Any]:
  """The last record, {} of a run that diverged."""
  return {} if run.get('diverged') else run['records'][-1]


def sent(run: Mapping[str, Any]) -> float:
  """Bytes that all workers send in a step, NaN if the run diverged."""
  end = last(run)
  return sum(end['bytes_sent']) / end['step'] if end else np.nan


def path_s(run: Mapping[str, Any]) -> float:
  """Modelled seconds on the busiest link of `workloads.LINK`, in all steps;
  NaN if the run diverged."""
  return last(run).get('comm_s', {}).get('custom', np.nan)


def difference(runs: Runs, a: tuple, b: tuple) -> tuple[float, float]:
  """Points of held-out accuracy that cell a is above cell b.

  Returns:
    The mean over the seeds that both have, and its standard error. Both are
    NaN if such a seed diverged, the error also if there is only one.
  """
  pairs = pd.concat([scores(runs, a), scores(runs, b)], axis=1, join='inner')
  points = 100 * (pairs[0] - pairs[1])
  return (
    float(points.mean(skipna=False)),
    float(points.sem(skipna=False)),
  )


def against(
  runs: Runs, cell: tuple, other: tuple, name: str
) -> dict[str, float]:
  """The columns `points over NAME` and its standard error."""
  points, error = difference(runs, cell, other)
  return {
    f'points over {name}': points,
    f'points over {name}{ERROR}': error,
  }


def told(gain: float | None, error: float | None) -> str:
  """A difference, with its standard error if it is known."""
  if pd.isna(gain):
    return 'unknown (a seed diverged)'
  return f'{gain:+.2f} ' + (
    '(one seed)' if pd.isna(error) else f'+- {error:.2f}'
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
  """A row per cell, means over its seeds that did not diverge.

  What a probe told is averaged over the second half of each run.

  Args:
    names: of the parts of a cell.

  Raises:
    UserError: there is no run.
  """
  if not runs:
    raise UserError('--minutes is too short: no run has finished.')
  cells = [key[:-1] for key in runs]
  ends = pd.DataFrame([_end(run) for run in runs.values()])
  probed = pd.DataFrame(
    [
      line | {'cell': key[:-1]}
      for key, run in runs.items()
      for line in run['told'][len(run['told']) // 2 :]
    ],
    columns=['cell', *_told(runs)],
  )
  probed = probed.groupby('cell', sort=False).mean()
  found = []
  for cell in dict.fromkeys(cells):
    mine = ends[[other == cell for other in cells]]
    row = dict(zip(names, cell, strict=True)) | _row(mine)
    for name in probed:
      row[name] = float(probed[name][cell]) if cell in probed.index else None
    found.append(row)
  return found


def _told(runs: Runs) -> list[str]:
  """The names of what probes told, in order."""
  names = (name for r in runs.values() for line in r['told'] for name in line)
  return [name for name in dict.fromkeys(names) if name != 'step']


def _end(run: dict[str, Any]) -> dict[str, float]:
  """What a run ended with, NaN if it diverged."""
  end = last(run)
  return {
    'rate': run['config']['optimizer']['learning_rate'],
    'accuracy': 100 * end['test_accuracy'] if end else np.nan,
    'loss': end['test_loss'] if end else np.nan,
    'bytes': max(end['bytes_sent']) / end['step'] if end else np.nan,
  }


def _row(ends: pd.DataFrame) -> dict[str, Any]:
  mean = ends.mean()
  return {
    'seeds': len(ends),
    'learning rate': float(ends['rate'].iloc[0]),
    'seeds that diverged': int(ends['accuracy'].isna().sum()),
    'held-out accuracy %': float(mean['accuracy']),
    DEVIATION: float(ends['accuracy'].std()),
    'held-out loss': float(mean['loss']),
    'bytes sent per step': None
    if np.isnan(mean['bytes'])
    else round(mean['bytes']),
  }
