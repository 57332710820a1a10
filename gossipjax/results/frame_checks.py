"""Checks that a frame of runs has the columns and scores that are needed."""

import pandas as pd

from gossipjax.errors import UserError, nearest


def needs(frame: pd.DataFrame, *columns: str) -> None:
  """Checks that a frame has some columns.

  Raises:
    UserError: a column is missing; suggests the nearest one, or names all.
  """
  for column in columns:
    if column not in frame:
      raise UserError(
        f'The frame has no column {column!r}'
        f'{nearest(column, map(str, frame.columns))}'
      )


def needs_scores(frame: pd.DataFrame, metric: str) -> None:
  """Checks that some run of a frame has values of a metric.

  Raises:
    UserError: no run has any; suggests the nearest held-out score that runs
      have, or names all.
  """
  if not len(frame) or frame[metric].notna().any():
    return
  held_out = [name for name in frame if str(name).startswith('test_')]
  scores = [name for name in held_out if frame[name].notna().any()]
  raise UserError(f'No run has {metric}{nearest(metric, scores)}')
