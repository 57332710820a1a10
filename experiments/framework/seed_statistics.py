"""Means, standard errors and paired differences of methods, over seeds."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.framework import intervals, workloads
from experiments.framework.best_rate import Tuned
from experiments.framework.intervals import known as known
from gossipjax.results.standard_error import standard_error

ERROR = ', standard error'  # Behind a column's name.
ACCURACY, LOSS = 'held-out accuracy %', 'held-out loss'
DEVIATION = f'{ACCURACY}, standard deviation'
BYTES, PATH = 'bytes sent per step', 'bytes on the busiest link per step'
INSIDE = 'best rate is inside'
FASTER = 1.05  # Speed-up that counts as faster; machines differ by less.
SCORES = {ACCURACY: ('test_accuracy', 100.0), LOSS: ('test_loss', 1.0)}


def of_seeds(tuned: Tuned, column: str) -> np.ndarray:
  """Returns the score of each seed, f64[seeds]; NaN where it diverged."""
  field, scale = SCORES[column]
  ends = [workloads.final_record(run).get(field) for run in tuned.runs]
  return np.array([math.nan if end is None else scale * end for end in ends])


def row(cell: Mapping[str, Any], tuned: Tuned) -> dict[str, Any]:
  """Returns the columns that every table of tuned methods has.

  The numbers of a probe are averaged over the second half of each run.

  Args:
    cell: what the row is about, by column.
    tuned: the method.
  """
  accuracy, loss = (of_seeds(tuned, column) for column in (ACCURACY, LOSS))
  bad = int(np.isnan(accuracy).sum())
  return {
    **cell,
    'arguments': tuned.arguments,
    'seeds': len(tuned.runs),
    'seeds that diverged': bad,
    'learning rate': tuned.rate,
    INSIDE: tuned.inside,
    'validation score by rate': curve(tuned.curve),
    ACCURACY: float(accuracy.mean()) if len(accuracy) else math.nan,
    DEVIATION: float(accuracy.std(ddof=1)) if len(accuracy) > 1 else math.nan,
    LOSS: float(loss.mean()) if len(loss) else math.nan,
    BYTES: mean_of_known(sent(run) for run in tuned.runs),
    PATH: mean_of_known(workloads.busiest_bytes(run) for run in tuned.runs),
    **_probe_means(tuned),
  }


def counts(rows: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
  """Returns the fewest and most seeds of rows that have any; 0 if none has."""
  seeds = [row['seeds'] for row in rows if row['seeds']] or [0]
  return min(seeds), max(seeds)


def curve(scores: Mapping[float, float | None]) -> str:
  """Formats scores by rate as a cell of a table."""
  return '; '.join(
    f'{rate:.3g}: {"diverged" if score is None else f"{score:.4f}"}'
    for rate, score in scores.items()
  )


def sent(run: Mapping[str, Any]) -> float | None:
  """Bytes per step of the worker that sends most; None if the run diverged."""
  end = workloads.final_record(run)
  return end['most_bytes_sent'] / end['step'] if end else None


def mean_of_known(values: Iterable[float | None]) -> float:
  """Returns the mean of the values that are not None; NaN if all are None."""
  known = [value for value in values if value is not None]
  return float(np.mean(known)) if known else math.nan


def _probe_means(tuned: Tuned) -> dict[str, float]:
  lines = [
    line for run in tuned.runs for line in run['told'][len(run['told']) // 2 :]
  ]
  names = dict.fromkeys(name for line in lines for name in line)
  return {
    name: mean_of_known(line[name] for line in lines)
    for name in names
    if name != 'step'
  }


def difference(
  a: Tuned, b: Tuned, column: str = ACCURACY
) -> tuple[float, float]:
  """Returns how far a's scores are above b's, paired by seed.

  Returns:
    The mean over seeds and its standard error. Both are NaN if a seed diverged.
    The error is also NaN with only one seed, or if a method's best rate is the
    lowest or the highest that was tried: further rates might be better.
  """
  n = min(len(a.runs), len(b.runs))
  gaps = of_seeds(a, column)[:n] - of_seeds(b, column)[:n]
  if not n:
    return math.nan, math.nan
  error = standard_error(gaps.tolist()) if a.inside and b.inside else math.nan
  return float(gaps.mean()), error


def points_over(a: Tuned, b: Tuned | None, name: str) -> dict[str, float]:
  """The columns `points over NAME` and its standard error; NaN without b."""
  points, error = difference(a, b) if b else (math.nan, math.nan)
  return {
    f'points over {name}': points,
    f'points over {name}{ERROR}': error,
  }


def format_difference(gain: float | None, error: float | None) -> str:
  """Formats a difference, with its standard error if it is known."""
  if not known(gain):
    return 'unknown (a seed diverged, or runs are missing)'
  spread = f'+- {error:.2f}' if known(error) else '(no standard error)'
  return f'{gain:+.2f} {spread}'


def ratio(
  mine: Sequence[float | None], base: Sequence[float | None]
) -> tuple[float | None, float | None]:
  """Returns the ratio of two means over seeds, and its standard error.

  Seeds are paired: the error of r = mean(a) / mean(b) is that of the mean of
  a - r b, over mean(b). Both results are None unless every seed has both
  numbers; the error is None with one seed.
  """
  pairs = [
    (a, b)
    for a, b in zip(mine, base, strict=False)
    if a is not None and b is not None
  ]
  if not pairs or len(pairs) < max(len(mine), len(base)):
    return None, None
  means = [statistics.fmean(each) for each in zip(*pairs, strict=True)]
  found = means[0] / means[1]
  if len(pairs) < 2:
    return found, None
  return found, standard_error([a - found * b for a, b in pairs]) / means[1]


def is_faster(row: Mapping[str, Any], speed: str) -> bool | None:
  """Whether a row's method is at least FASTER times as fast to a target; None
  if the seeds cannot tell, or a better learning rate might change that.

  Args:
    row: has the error of the speed-up, seeds and INSIDE.
    speed: column with the speed-up; None there is a target that was missed.
  """
  times, error = row[speed], row[f'{speed}{ERROR}']
  known = times is not None
  fast = known and intervals.at_least(FASTER, times, error, row['seeds'])
  return None if fast is False and not row[INSIDE] else fast


def format_points_over(row: Mapping[str, Any], other: str) -> str:
  """Formats a row's points over another method, with their standard error."""
  points = f'points over {other}'
  return format_difference(row[points], row[f'{points}{ERROR}'])


def gain_at_least(
  row: Mapping[str, Any], other: str, bound: float
) -> bool | None:
  """`intervals.at_least` for a row's points over another method."""
  points = f'points over {other}'
  return intervals.at_least(
    bound, row[points], row[f'{points}{ERROR}'], row['seeds']
  )


def columns(names: Sequence[str], cell: tuple) -> dict[str, Any]:
  """Returns the parts of a cell by the names of their columns."""
  return dict(zip(names, cell, strict=True))
