"""The standard error of a mean: what every claim and comparison means by it."""

import math
import statistics
from collections.abc import Sequence


def standard_error(values: Sequence[float]) -> float:
  """Sample standard deviation over sqrt(n); NaN for fewer than two values, or
  if one is not finite.

  Args:
    values: one per seed; of a paired difference, the difference of each seed.
  """
  return deviation(values) / math.sqrt(len(values)) if values else math.nan


def deviation(values: Sequence[float]) -> float:
  """Sample standard deviation; NaN where there is no standard error."""
  if len(values) < 2 or not all(map(math.isfinite, values)):
    return math.nan
  return statistics.stdev(values)
