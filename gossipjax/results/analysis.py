"""Questions to finished and running comparisons, answered as pandas frames.

    frame = analysis.load('runs/a', 'runs/b')
    analysis.to_target(frame, 'test_accuracy', 0.9)
    analysis.pareto(analysis.final(frame), 'bytes_sent', 'test_accuracy')

Bytes and messages are those of the worker with most, since the start of its
run, from the ledger's logical column; `comm_LINK_s` are modelled seconds.
"""

import math
import pathlib
from collections.abc import Iterator

import numpy as np
import pandas as pd

from gossipjax.errors import UserError, nearest
from gossipjax.results import reader
from gossipjax.results.frames import load as load  # Part of this module.

NEVER = math.inf  # The cost of what was not reached.
RUN = ['workdir', 'run']  # What names a run.
VARIANT = ['run', 'config']  # What runs have in common that differ in seed.


def needs(frame: pd.DataFrame, *columns: str) -> None:
  """Refuses columns that a frame does not have."""
  for column in columns:
    if column not in frame:
      raise UserError(
        f'The frame has no column {column!r}'
        f'{nearest(column, map(str, frame.columns))}'
      )


def higher_is_better(metric: str) -> bool:
  """Accuracies and rates are to be high, losses and costs low."""
  return 'accuracy' in metric or metric.endswith('_per_s')


def final(frame: pd.DataFrame) -> pd.DataFrame:
  """The last record of each run."""
  needs(frame, *RUN)
  return frame.groupby(RUN, observed=True, sort=False).tail(1)


def pareto(frame: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
  """The rows that no other row beats in both, from the least `x` on.

  Args:
    frame: of `load`, `final` or `to_target`.
    x: a column, for example of a cost.
    y: a column; which way is better see `higher_is_better`.
  """
  needs(frame, x, y)
  if (known := frame[[x, y]].dropna()).empty:
    raise UserError(f'No row has both {x} and {y}; choose other columns.')
  signed = pd.DataFrame(
    {
      name: -known[name] if higher_is_better(name) else known[name]
      for name in (x, y)
    }
  ).sort_values([x, y])
  best_before = signed[y].astype(float).cummin().shift(fill_value=np.inf)
  return frame.loc[signed.index[signed[y] < best_before]]


def _is_cost(column: str) -> bool:
  seconds = column.endswith('_s') and not column.endswith('_per_s')
  return (
    seconds
    or column.startswith('bytes_')
    or column in ('step', 'messages', 'wire_bytes')
  )


def to_target(frame: pd.DataFrame, metric: str, target: float) -> pd.DataFrame:
  """What it cost each run until its metric first was as good as the target.

  Returns:
    One row per run: who it is, `reached`, and `step` and each column of bytes,
    messages and seconds at the first record that reached it, else NEVER.

  Raises:
    UserError: no run reached it.
  """
  needs(frame, *RUN, *VARIANT, 'seed', 'step', metric)
  good = (
    frame[metric] >= target
    if higher_is_better(metric)
    else frame[metric] <= target
  )
  if not good.any():
    best = frame[metric].agg('max' if higher_is_better(metric) else 'min')
    raise UserError(
      f'No run reached {metric}={target:g}, the best is '
      f'{best:.4g}; choose an easier target.'
    )
  costs = [c for c in frame.columns if _is_cost(c)]
  who = list(dict.fromkeys([*RUN, *VARIANT, 'strategy', 'seed']))
  runs = frame.drop_duplicates(RUN)[[c for c in who if c in frame]]
  first = frame[good].drop_duplicates(RUN)[[*RUN, *costs]]
  result = runs.merge(first.assign(reached=True), how='left', on=RUN)
  result['reached'] = result['reached'].notna()
  result[costs] = result[costs].astype(float).where(result['reached'], NEVER)
  return result


def over_seeds(frame: pd.DataFrame, *metrics: str) -> pd.DataFrame:
  """Mean and spread over runs that differ in their seed only.

  Args:
    frame: of `load` (then per step), `final` or `to_target` (then per variant).
    metrics: columns of it.

  Returns:
    One row per variant, or variant and step: `seeds`, and for each metric
    `METRIC_mean` and `METRIC_sd` (NaN for a single seed, NEVER's mean is
    NEVER).

  Raises:
    UserError: a seed is there twice, which would pretend to a spread.
  """
  per_run = not frame.duplicated(RUN).any()
  by = VARIANT if per_run else [*VARIANT, 'step']
  needs(frame, *by, 'seed', *metrics)
  twice = frame[frame.duplicated([*by, 'seed'], keep=False)]
  if len(twice):
    one, two, *_ = twice['workdir'].astype(str)
    raise UserError(
      f'{twice["run"].iloc[0]} with seed {twice["seed"].iloc[0]} '
      f'is in {one} and in {two}; leave one of them out.'
    )
  groups = frame.groupby(by, observed=True, sort=False)
  found = {'seeds': groups['seed'].nunique()}
  for metric in metrics:
    found[f'{metric}_mean'] = groups[metric].mean()
    found[f'{metric}_sd'] = groups[metric].agg(
      lambda x: x.std() if np.isfinite(x).all() else np.nan
    )
  return pd.DataFrame(found).reset_index()


def ledgers(*workdirs: str | pathlib.Path) -> pd.DataFrame:
  """The ledger's columns: of audited steps, and of whole runs whose interface
  was read (then per step, and `step` is the last).

  Returns:
    workdir, run, step, worker, logical_bytes, compiled_bytes, wire_bytes, and
    the reason for a difference ('' for none); NaN for what was not counted.
  """
  rows = [
    {'workdir': str(run.workdir), 'run': run.name, **row}
    for run in reader.read(*workdirs)
    for row in _ledger(run)
  ]
  if not rows:
    raise UserError('No finished run was audited; a run with --audit is.')
  return pd.DataFrame(
    rows,
    columns=[
      *RUN,
      'step',
      'worker',
      *(f'{kind}_bytes' for kind in ('logical', 'compiled', 'wire')),
      'reason',
    ],
  )


def _ledger(run: reader.Run) -> Iterator[dict]:
  for row in (run.summary or {}).get('audit', []):
    yield {
      **row,
      'logical_bytes': row['ledger'],
      'compiled_bytes': row['compiled'],
    }
  step, sent, wire = (
    run.records.get(name, [math.nan])[-1]
    for name in ('step', 'bytes_sent', 'wire_bytes')
  )
  if not math.isnan(wire):
    yield {
      'step': step,
      'reason': '',
      'logical_bytes': sent / step,
      'wire_bytes': wire / step,
    }
