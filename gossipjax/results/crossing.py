"""Where a curve reaches a goal, as all claims and comparisons define it."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

Point = tuple[float, float]  # Steps or seconds, and a score.


def place(
  scores: Sequence[float], goal: float, higher: bool = True
) -> float | None:
  """Index at which scores first are as good as a goal; None if they never are.

  It is interpolated linearly between two scores: 2.5 is half way from the third
  to the fourth score. If the first score is good enough, it is 0.

  Args:
    scores: in order, without NaN.
    goal: a score.
    higher: whether large values are good.
  """
  good = [score >= goal if higher else score <= goal for score in scores]
  if True not in good:
    return None
  if (i := good.index(True)) == 0:
    return 0.0
  if not math.isfinite(scores[i - 1]):
    return float(i)  # No line leads from there.
  return i - 1 + (goal - scores[i - 1]) / (scores[i] - scores[i - 1])


def at(values: Sequence[float], place: float) -> float:
  """The value of a column at a place from `place`, interpolated linearly."""
  return float(np.interp(place, np.arange(len(values)), values))


def crossing(
  points: Iterable[Point], goal: float, higher: bool = True
) -> float | None:
  """Steps or seconds at which a curve reaches a goal; see `place`.

  Args:
    points: of the curve, in order.
    goal: a score.
    higher: whether large values are good.
  """
  points = [*points]
  found = place([score for _, score in points], goal, higher)
  return None if found is None else at([cost for cost, _ in points], found)
