"""How surely one run of a comparison takes longer than another."""

import math
import statistics

from gossipjax.comparison.target_costs import Row, common, means
from gossipjax.results.standard_error import uncertainty

# Seconds to a target differ by a fifth between seeds, often, and more where a
# curve is flat. So one seed tells two runs apart only if one takes that many
# times as long, to the target and to one that is a hundredth easier.
ONE_SEED = 1.5
# Medians of measured steps repeat to that. The seeds do not show it: those of a
# run are trained one after the other, in the same minutes.
NOISE = 0.05


def slower(row: Row, first: Row) -> bool:
  """Whether the seeds of both rows show that a row takes longer than the first.

  With several seeds, one that misses the target is enough; else the mean gap
  has to be above the half width of its two-sided 95 % interval. Who is at the
  target at its first evaluation may have been there at any time before.
  """
  if row.at_once:
    return False
  gaps = [row.each[seed] - first.each[seed] for seed in common(row, first)]
  if len(gaps) < 2:
    pairs = means('each', row, first), means('easier', row, first)
    return all(mine >= ONE_SEED * least and mine > 0 for mine, least in pairs)
  if not row.arrives:
    return True
  return statistics.fmean(gaps) > uncertainty(gaps)


def within_noise(row: Row, first: Row) -> bool:
  """Whether a row takes longer by no more than the measured part of the seconds
  of one of the two varies: its computing, or all if the parts are unknown."""
  mine, least = means('each', row, first)
  measured = max(map(_measured_s, (row, first)))
  return row.arrives and mine - least <= NOISE * measured


def _measured_s(row: Row) -> float:
  return row.total.mean if math.isnan(row.computing_s) else row.computing_s
