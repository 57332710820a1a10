"""Whether one run of a comparison surely takes longer than another."""

import math
import statistics

from gossipjax.comparison.target_costs import Row, common, means
from gossipjax.results.standard_error import uncertainty

# Seconds to a target often differ by a fifth between seeds, and by more where a
# curve is flat. So a single seed distinguishes two runs only if one takes this
# many times as long, to the target and to a target that is a hundredth easier.
ONE_SEED = 1.5
# Medians of measured step times vary by this fraction. The seeds do not show
# it, since those of a run are trained one after the other, in the same minutes.
NOISE = 0.05


def slower(row: Row, first: Row) -> bool:
  """Whether the seeds of both rows show that a row takes longer than the first.

  With several common seeds, one that misses the target is enough; else the mean
  gap has to exceed the half width of its two-sided 95 % interval. A row that
  is at the target at its first evaluation may have reached it at any time.
  """
  if row.at_once:
    return False
  gaps = [row.each[seed] - first.each[seed] for seed in common(row, first)]
  if len(gaps) < 2:
    pairs = means('each', row, first), means('easier', row, first)
    return all(
      row_s >= ONE_SEED * first_s and row_s > 0 for row_s, first_s in pairs
    )
  if not row.arrives:
    return True
  return statistics.fmean(gaps) > uncertainty(gaps)


def within_noise(row: Row, first: Row) -> bool:
  """Whether a row takes longer by at most NOISE of the measured seconds of one
  of the two: those of computing, or all if the parts are unknown."""
  row_s, first_s = means('each', row, first)
  measured = max(map(_measured_s, (row, first)))
  return row.arrives and row_s - first_s <= NOISE * measured


def _measured_s(row: Row) -> float:
  return row.total.mean if math.isnan(row.computing_s) else row.computing_s
