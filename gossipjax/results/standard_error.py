"""The standard error of a mean: what every claim and comparison means by it."""

import math
import statistics
from collections.abc import Sequence

from scipy import special


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


def uncertainty(values: Sequence[float]) -> float:
  """Half the 95 % interval of a mean: standard errors, more of few values,
  which know their own deviation badly. NaN where there is no standard error.

  Args:
    values: as those of `standard_error`.
  """
  return students_t(0.975, len(values)) * standard_error(values)


def students_t(share: float, count: int) -> float:
  """Standard errors below which a share of all deviations of a mean of `count`
  values is: the quantile of Student's t with count - 1 degrees of freedom."""
  return float(special.stdtrit(count - 1, share))
