"""Whether the seeds show a mean to be above or below a bound."""

import math

from gossipjax.results.standard_error import students_t

SURE = 0.95  # One-sided confidence of a verdict.


def known(value: float | None) -> bool:
  """Whether a value is neither missing nor NaN."""
  return value is not None and not math.isnan(value)


def at_least(
  bound: float,
  value: float | None,
  error: float | None,
  seeds: int,
  tests: int = 1,
) -> bool | None:
  """Whether a value is at least a bound; None if the seeds cannot tell.

  The seeds can tell if the bound is outside the one-sided 95 % interval of the
  value, on either side (Student's t: with three seeds 2.9 standard errors).

  Args:
    bound: what is asked for.
    value: a mean over seeds, or a ratio of means.
    error: its standard error.
    seeds: number of seeds from which the error comes.
    tests: number of tests that share the error rate 1 - SURE (Bonferroni).
  """
  if not known(value) or not known(error):
    return None
  margin = students_t(1 - (1 - SURE) / tests, seeds) * error if error else 0.0
  return value >= bound if abs(value - bound) >= margin else None


def is_below(
  bound: float, value: float | None, error: float | None, seeds: int
) -> bool | None:
  """Whether a value is below a bound; None if the seeds cannot tell, as in
  `at_least`."""
  reached = at_least(bound, value, error, seeds)
  return None if reached is None else not reached


def is_near(
  margin: float, found: float | None, error: float | None, seeds: int
) -> bool | None:
  """Whether a ratio is within a margin of 1; None if the seeds cannot tell."""
  off = -abs(found - 1) if found is not None else None
  return at_least(-margin, off, error, seeds)
