"""The standard error of a mean: what every claim and comparison means by it."""

import math
import statistics
from collections.abc import Sequence

# Student's two-sided 95 % quantiles, each up to some degrees of freedom.
QUANTILES = (
  *enumerate((12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26), 1),
  *((12, 2.2), (30, 2.1), (math.inf, 2.0)),
)


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
  freedom = len(values) - 1
  quantile = next(found for most, found in QUANTILES if freedom <= most)
  return quantile * standard_error(values)
