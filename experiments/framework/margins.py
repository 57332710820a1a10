"""The score by which methods are compared, and the margin of "as good".

The score is accuracy in points, or loss in nats where the workload is judged by
a loss; learning rates are chosen by the same score.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from experiments.framework import claim, intervals, seed_statistics, workloads
from experiments.framework.best_rate import Tuned
from experiments.framework.seed_statistics import ACCURACY, ERROR, LOSS

UNIT = 'unit of the gain'


class ScoreMetric(NamedTuple):
  """The score by which methods are compared.

  Attributes:
    column: column of the tables that holds the score.
    sign: 1 if higher is better, -1 for a loss.
    unit: unit of a difference.
    margin: shortfall up to which a method is as good as another.
    digits: decimals of a difference in text.
  """

  column: str
  sign: int
  unit: str
  margin: float
  digits: int


POINTS = ScoreMetric(ACCURACY, 1, 'points', 0.5, 2)
NATS = ScoreMetric(LOSS, -1, 'nats', 0.02, 3)


def score_metric(workload: str) -> ScoreMetric:
  """Returns a workload's score, by which its rates are chosen, too."""
  return NATS if workloads.WORKLOADS[workload].is_loss else POINTS


def gain(
  mine: Tuned, theirs: Tuned | None, workload: str, other: str
) -> dict[str, Any]:
  """Returns a method's gain over another, in the score of the workload.

  Returns:
    The columns `gain over OTHER`, its standard error, and its unit; gain and
    error are None if `theirs` is None.
  """
  score = score_metric(workload)
  change, error = (
    seed_statistics.difference(mine, theirs, score.column)
    if theirs
    else (None, None)
  )
  column = f'gain over {other}'
  return {
    column: None if change is None else score.sign * change,
    f'{column}{ERROR}': error,
    UNIT: score.unit,
  }


def is_as_good(
  row: Mapping[str, Any], other: str, lost: bool = True, tests: int = 1
) -> bool | None:
  """Whether a row is as good as another; None if the seeds cannot tell.

  Args:
    row: has the gain over the other and its standard error.
    other: name of the other.
    lost: whether the gain may be as low as minus the margin; else it must be at
      least 0.
    tests: number of tests of which one is enough; see `intervals.at_least`.
  """
  return _gains(row, other, -lost, tests)


def is_worse(row: Mapping[str, Any], other: str) -> bool:
  """Whether the seeds show that a row is worse than another."""
  return is_as_good(row, other, lost=False) is False


def leads(row: Mapping[str, Any], other: str) -> bool | None:
  """Whether a row is better than another by at least the margin; None if the
  seeds cannot tell."""
  return _gains(row, other, 1)


def _gains(
  row: Mapping[str, Any], other: str, margins: int, tests: int = 1
) -> bool | None:
  """Whether the gain over another is at least `margins` times the margin."""
  column = f'gain over {other}'
  bound = margins * score_metric(row['workload']).margin
  gain, error = row[column], row[f'{column}{ERROR}']
  return intervals.at_least(bound, gain, error, row['seeds'], tests)


def span(rows: claim.Rows, over: str) -> str:
  """Formats the least and the largest known gain over another, by unit."""
  column = f'gain over {over}'
  known = [row for row in rows if seed_statistics.known(row[column])]
  of_unit = lambda score: [row for row in known if row[UNIT] == score.unit]
  return ', '.join(
    f'{claim.span(of_unit(score), column, f"+.{score.digits}f")} {score.unit}'
    for score in (POINTS, NATS)
    if of_unit(score)
  )


def open_up_to(
  rows: claim.Rows, key: str, case: Callable[[Any], bool | None]
) -> str:
  """Formats the largest value of a column among undecided rows; '' if none."""
  values = [row[key] for row in rows if case(row) is None]
  known = [value for value in values if intervals.known(value)]
  return f'; undecided: up to {max(known):+.2f}' if known else ''
