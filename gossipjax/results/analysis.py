"""Answers questions about finished and running comparisons as pandas frames.

    frame = analysis.load('runs/a', 'runs/b')
    analysis.to_target(frame, 'test_accuracy', 0.9)
    analysis.pareto(analysis.final(frame), 'bytes_sent', 'test_accuracy')

Bytes and messages are logical, counted from the start of the run, for the
worker with most; `comm_LINK_s` are modelled seconds. frames.py lists the
columns.
"""

import math

import numpy as np
import pandas as pd

from gossipjax.errors import UserError
from gossipjax.results import crossing, frames
from gossipjax.results.frame_checks import needs, needs_scores

# Public here, as every analysis begins with one of these.
from gossipjax.results.frames import ledgers as ledgers
from gossipjax.results.frames import load as load
from gossipjax.results.record_file import SCORES
from gossipjax.tasks.task import is_higher

NEVER = math.inf  # The cost of a target that was not reached.
RUN = ['workdir', 'run']  # Columns that identify a run.
VARIANT = [
  'variant',
  'config',
]  # Columns equal in runs that differ in the seed.


def higher_is_better(metric: str, frame: pd.DataFrame | None = None) -> bool:
  """Whether large values of a column are good.

  They are good for accuracies, for rates, and for the scores that a frame of
  `load` lists in `attrs['higher_is_better']`.
  """
  names = [] if frame is None else frame.attrs.get('higher_is_better', [])
  return metric.endswith('_per_s') or is_higher(metric, names)


def final(frame: pd.DataFrame) -> pd.DataFrame:
  """The last record of each run, without scores if the run diverged.

  Args:
    frame: of `load`.

  Raises:
    UserError: a column is missing.
  """
  needs(frame, *RUN)
  found = frame.groupby(RUN, observed=True, sort=False).tail(1)
  if 'diverged' not in found:
    return found
  scores = [name for name in found if name.startswith(SCORES)]
  known = found[scores].mask(found['diverged'])
  return found.assign(**{name: known[name] for name in scores})


def pareto(frame: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
  """The Pareto front, from the best `x` on: the rows for which no other row is
  at least as good in both columns and better in one.

  Args:
    frame: of `load`, `final` or `to_target`.
    x: a column, for example of a cost.
    y: a column; `higher_is_better` says which values are good.

  Raises:
    UserError: a column is missing, or no row has both.
  """
  needs(frame, x, y)
  if (known := frame[[x, y]].dropna()).empty:
    raise UserError(f'No row has both {x} and {y}; choose other columns.')
  signed = pd.DataFrame(
    {
      name: -known[name] if higher_is_better(name, frame) else known[name]
      for name in (x, y)
    }
  ).sort_values([x, y])
  best = signed[y].astype(float).cummin()
  ahead = signed[y] < best.shift(fill_value=np.inf)
  same = signed.eq(signed.where(ahead).ffill()).all(axis=1)  # Ties of `ahead`.
  return frame.loc[signed.index[ahead | same]]


def _is_cost(column: str) -> bool:
  seconds = column.endswith('_s') and not column.endswith('_per_s')
  return (
    seconds
    or column.startswith('bytes_')
    or column in ('step', 'messages', 'wire_bytes')
  )


def to_target(frame: pd.DataFrame, metric: str, target: float) -> pd.DataFrame:
  """What each run cost until its metric first was as good as a target.

  Costs are interpolated linearly between two records with the metric. A run
  that diverged counts as not having reached the target.

  Args:
    frame: of `load`.
    metric: a column; `higher_is_better` says which values are good.
    target: a value of it.

  Returns:
    A row per run: the columns that identify it, `reached`, and the `step`,
    bytes, messages and seconds at which it reached the target; NEVER if it did
    not.

  Raises:
    UserError: a column is missing or empty, or no run reached the target.
  """
  needs(frame, *RUN, *VARIANT, 'seed', 'step', metric)
  higher = higher_is_better(metric, frame)
  needs_scores(frame, metric)
  good = frame[metric] >= target if higher else frame[metric] <= target
  if not good.any():
    best = frame[metric].agg('max' if higher else 'min')
    raise UserError(
      f'No run reached {metric}={target:g}, the best is '
      f'{best:.4g}; choose an easier target.'
    )
  costs = [c for c in frame.columns if _is_cost(c)]
  keys = list(dict.fromkeys([*RUN, *VARIANT, 'strategy', 'seed']))
  rows = []
  for _, run in frame.groupby(RUN, observed=True, sort=False):
    known = run[run[metric].notna()]
    place = crossing.place(known[metric].to_numpy(), target, higher)
    if 'diverged' in run and run['diverged'].any():
      place = None
    rows.append(
      {c: run[c].iloc[0] for c in keys if c in frame}
      | {'reached': place is not None}
      | {c: NEVER if place is None else _at(known[c], place) for c in costs}
    )
  dtypes = {c: frame[c].dtype for c in keys if c in frame}
  return pd.DataFrame(rows).astype(dtypes)


def _at(column: pd.Series, place: float) -> float:
  return crossing.at(column.to_numpy(float), place)


def over_seeds(frame: pd.DataFrame, *metrics: str) -> pd.DataFrame:
  """Mean and standard deviation over runs that differ only in the seed.

  Args:
    frame: of `load` (then per step), `final` or `to_target` (then per variant).
    metrics: columns of it.

  Returns:
    A row per variant, or per variant and step: `seeds`, the number of seeds
    with that row; `step` of such a frame, NaN if it differs; and for each
    metric `METRIC_mean` and `METRIC_sd`, the sample standard deviation.
    `METRIC_sd` is NaN for one seed. A mean with NEVER is NEVER. Both are NaN
    where a seed lacks the value: it diverged, or still runs.

  Raises:
    UserError: a column is missing, or two runs of a variant have the same seed.
  """
  per_run = not frame.duplicated(RUN).any()
  by = VARIANT if per_run else [*VARIANT, 'step']
  needs(frame, *by, 'seed', *metrics)
  frame = frame if per_run else frames.one_per_step(frame)
  _check_seeds(frame, by)
  here, ever = (
    frame.groupby(keys, observed=True)['seed'].transform('nunique')
    for keys in (by, VARIANT)
  )
  known = {metric: frame[metric].where(here == ever) for metric in metrics}
  if not per_run and 'diverged' in frame:  # A run without records has no step.
    frame = frame[~(frame['diverged'] & (frame['step'] == 0))]
  groups = frame.assign(**known).groupby(by, observed=True, sort=False)
  found = {'seeds': groups['seed'].nunique()}
  if per_run and 'step' in frame and 'reached' not in frame:
    step = groups['step']
    found['step'] = step.first().where(step.nunique() == 1)
  for metric in metrics:
    found[f'{metric}_mean'] = groups[metric].agg(lambda x: x.mean(skipna=False))
    found[f'{metric}_sd'] = groups[metric].agg(
      lambda x: x.std() if np.isfinite(x).all() else np.nan
    )
  return pd.DataFrame(found).reset_index().rename(columns={'variant': 'run'})


def _check_seeds(frame: pd.DataFrame, by: list[str]) -> None:
  twice = frame[frame.duplicated([*by, 'seed'], keep=False)]
  if len(twice):
    one, two, *_ = twice['workdir'].astype(str)
    raise UserError(
      f'{twice["run"].iloc[0]} with seed {twice["seed"].iloc[0]} '
      f'is in {one} and in {two}; leave one of them out.'
    )
