"""The lines of figures: a run each, or the mean of runs with other seeds."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from gossipjax.comparison import over_seeds
from gossipjax.results import frames
from gossipjax.results.reader import Run
from gossipjax.results.record_file import SCORES

SD = ' sd'  # Ends no name of a score, which has no space.


def lines(
  summary: dict[str, Any], runs: Sequence[Run]
) -> dict[str, pd.DataFrame]:
  """Returns the records of each run, or the mean records of each variant if the
  comparison has seeds; runs that still train come last.

  Means have SCORE+SD of each score, and a row for each step that all seeds of
  the variant have. A score is NaN where a seed has none. In virtual time, a
  seed that has reached its target keeps its last record until all seeds have.
  There is no row if a run, or a seed, diverged before its first record.

  Args:
    summary: of the comparison; it names the runs without a record, too.
    runs: of the comparison, those that have records.
  """
  frame = frames.of_runs(runs)
  if summary['config'].get('seeds'):
    found = _means(frame, summary, runs)
  else:
    by_run = frame.groupby('run', observed=True, sort=False)
    found = {str(name): rows for name, rows in by_run}
  # All names, since the place of a line decides on its color.
  done = [entry['name'] for entry in over_seeds.summary(summary)['runs']]
  names = dict.fromkeys([*done, *found])
  return {name: found.get(name, frame[:0]) for name in names}


def _means(
  frame: pd.DataFrame, summary: dict[str, Any], runs: Sequence[Run]
) -> dict[str, pd.DataFrame]:
  """The mean records of each variant that has records."""
  seeds: dict[str, set[int]] = {}
  for run in runs:
    seeds.setdefault(run.variant, set()).add(run.config['seed'])
  for entry in summary['runs']:
    seeds.setdefault(over_seeds.variant(entry), set()).add(entry['seed'])
  result = {}
  frame = frames.one_per_step(frame)
  arrived = [run.name for run in runs if (run.summary or {}).get('target_s')]
  frame = pd.concat([frame, *(_extended(frame, name) for name in arrived)])
  for name, rows in frame.groupby('variant', observed=True, sort=False):
    by_step = rows.groupby('step', as_index=False)
    complete = by_step['seed'].count()['seed'] == len(seeds[str(name)])
    mean = by_step.mean(numeric_only=True)
    sd, counts = by_step.std(numeric_only=True), by_step.count()
    for column in [c for c in mean if c.startswith(SCORES)]:
      # Once a seed has diverged, the mean of the others is misleading.
      all_have = counts[column] == len(seeds[str(name)])
      mean[column] = mean[column].where(all_have)
      mean[column + SD] = sd[column].where(all_have)
    result[str(name)] = mean[complete.to_numpy()]
  return result


def _extended(frame: pd.DataFrame, run: str) -> pd.DataFrame:
  """Repeats a run's last record at all later evaluations of other seeds."""
  last = frame[frame['run'] == run].iloc[[-1]]
  scores = frame[[name for name in frame if name.startswith('test_')]]
  later = frame[
    (frame['variant'] == last['variant'].iloc[0])
    & (frame['step'] > last['step'].iloc[0])
    & scores.notna().any(axis=1)
  ]
  steps = later['step'].drop_duplicates().to_numpy()
  return last.loc[last.index.repeat(len(steps))].assign(step=steps)
