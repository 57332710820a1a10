"""The standard error of a mean, as all claims and comparisons define it."""

import math
import statistics
from collections.abc import Sequence

from scipy import special


def standard_error(values: Sequence[float]) -> float:
  """Sample standard deviation over sqrt(n); NaN for fewer than two values, or
  if one is not finite.

  Args:
    values: one per seed; for a paired difference, the difference of each seed.
  """
  return deviation(values) / math.sqrt(len(values)) if values else math.nan


def deviation(values: Sequence[float]) -> float:
  """Sample standard deviation; NaN for fewer than two values, or if one is not
  finite."""
  if len(values) < 2 or not all(map(math.isfinite, values)):
    return math.nan
  return statistics.stdev(values)


def uncertainty(values: Sequence[float]) -> float:
  """Half the width of the 95 % interval of a mean, by Student's t: with fewer
  values it is more standard errors. NaN if there is no standard error.

  Args:
    values: as those of `standard_error`.
  """
  return students_t(0.975, len(values)) * standard_error(values)


def students_t(share: float, count: int) -> float:
  """The quantile of Student's t with count - 1 degrees of freedom: a share of
  all means of `count` values is off by fewer standard errors than this."""
  return float(special.stdtrit(count - 1, share))
