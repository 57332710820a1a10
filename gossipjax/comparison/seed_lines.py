"""Records of runs that differ in the seed alone as one line, with a band."""

from collections.abc import Sequence

import pandas as pd

from gossipjax.results import frames
from gossipjax.results.reader import Run
from gossipjax.results.record_file import SCORES


def lines(runs: Sequence[Run]) -> dict[str, pd.DataFrame]:
  """The mean records of each variant, with SCORE_sd of each score.

  A row per step that all seeds of the variant have.
  """
  result = {}
  frame = frames.of_runs(runs)
  for name, rows in frame.groupby('variant', observed=True, sort=False):
    by_step = rows.groupby('step', as_index=False)
    whole = by_step['seed'].count()['seed'] == rows['seed'].nunique()
    mean = by_step.mean(numeric_only=True)
    sd = by_step.std(numeric_only=True)
    for column in [c for c in mean if c.startswith(SCORES)]:
      mean[f'{column}_sd'] = sd[column]
    result[str(name)] = mean[whole.to_numpy()]
  return result
