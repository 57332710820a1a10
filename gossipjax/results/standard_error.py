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
  if len(values) < 2 or not all(map(math.isfinite, values)):
    return math.nan
  return statistics.stdev(values) / math.sqrt(len(values))
