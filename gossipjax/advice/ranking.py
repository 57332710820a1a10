"""Ranks strategies by expected seconds to a target, each at its best rate.

Pilots show the best rate, and when all-reduce reaches the target. Full-length
trainings show whether another strategy reaches it, see `risk`.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gossipjax.advice.risk import Risk
from gossipjax.comparison import targets
from gossipjax.comparison.target_costs import NEVER
from gossipjax.results import crossing

DENSE = 'all_reduce'
# Goals of pilots: fractions by which they are worse than all-reduce's best.
WORSE = (0.01, 0.02, 0.04, 0.08)
_SECONDS = ('seconds', 'expected', 'low', 'high', 'whole')  # In a Rank.


class Candidate(NamedTuple):
  """A variant's name, and the learning rate at which it is tried."""

  name: str
  rate: float


class Curve(NamedTuple):
  """A pilot's evaluations, one entry for each; none if it diverged."""

  scores: Sequence[float]  # On validation data.
  seconds: Sequence[float]  # Computing and communication, since the start.


class Rank(NamedTuple):
  """What is expected of a candidate.

  Attributes:
    candidate: at the best rate of its name.
    seconds: forecast from pilots alone, scaled to full length: the mean time of
      the mean curve over seeds to the WORSE goals, since one goal or one seed
      is noisy. Full-length pilots have one goal, the target. A missed goal
      costs the whole training and then all-reduce's time to the hardest goal.
    expected: seconds to the target, with the risk of missing it. If it is
      reached, the time follows from the relative steps of known trainings, or,
      if there are none, from how fast both pilots reach the same scores.
    low, high: with a risk, seconds if the target is reached and if it is
      missed. Without a risk, as for all-reduce, `seconds` of the fastest seed
      to the easiest goal, and of the slowest seed to the hardest goal.
    first, score: the first and the best score of the mean curve over seeds.
    whole: seconds of a training of full length.
    steps, seeds: of the pilots.
    risk: included in `expected`; None for all-reduce and full-length pilots.
  """

  candidate: Candidate
  seconds: float
  expected: float
  low: float
  high: float
  first: float
  score: float
  whole: float
  steps: int
  seeds: int
  risk: Risk | None = None

  @property
  def misses(self) -> bool:
    """Whether the candidate is assumed to miss the target for certain."""
    return self.risk is not None and self.low == self.high < NEVER


def ranked(
  curves: Mapping[Candidate, Sequence[Curve]],
  steps: int,
  full: int,
  higher: bool,
  risks: Mapping[str, Risk] | None = None,
  share: float = targets.SHARE,
) -> list[Rank]:
  """Ranks each name at its best rate, the fewest expected seconds first.

  Args:
    curves: of each candidate, one for each seed.
    steps: of the pilots.
    full: steps of the training that is forecast.
    higher: whether large scores are good.
    risks: by name, except all-reduce's. Full-length pilots need none.
    share: the fraction of all-reduce's best score that is the target.
  """
  means = {c: mean for c, each in curves.items() if (mean := _mean(each))}
  dense = [mean for c, mean in means.items() if c.name == DENSE]
  pick = targets.pick(higher)
  bests = [pick(mean.scores) for mean in dense]
  worse = WORSE if steps < full else (1 - share,)
  goals = [targets.share(pick(bests), higher, b) for b in worse if bests]
  retrain_s = min((_seconds(m, goals[0], higher) for m in dense), default=NEVER)
  by_name: dict[str, Rank] = {}
  for candidate, mean in means.items():
    rank = _rank(candidate, mean, curves[candidate], goals, retrain_s, higher)
    scaled = {k: getattr(rank, k) * full / steps for k in _SECONDS}
    rank = rank._replace(steps=steps, **scaled)
    other = by_name.get(candidate.name)
    if other is None or _order(rank, higher) < _order(other, higher):
      by_name[candidate.name] = rank
  needed = (risks or {}) if steps < full else {}
  ranks = [
    _with_risk(rank, by_name.get(DENSE), needed, means, higher, share)
    for rank in by_name.values()
  ]
  return sorted(ranks, key=lambda rank: _order(rank, higher))


def _with_risk(
  rank: Rank,
  dense: Rank | None,
  risks: Mapping[str, Risk],
  means: Mapping[Candidate, Curve],
  higher: bool,
  share: float,
) -> Rank:
  """Adds the risk of missing the target to a rank.

  If no known training reaches the target, the pilots tell how long that takes.
  A candidate is assumed to miss the target if its pilots miss the target that
  all-reduce's pilots set, and do not get beyond all-reduce's first score.
  """
  if dense is None or (risk := risks.get(rank.candidate.name)) is None:
    return rank
  never = rank.whole + dense.seconds
  pick = targets.pick(higher)
  goal = targets.target_of([dense.score], higher, share)
  hopeless = pick(rank.score, dense.first) == dense.first
  if hopeless and pick(rank.score, goal) != rank.score:
    return rank._replace(expected=never, low=never, high=never, risk=risk)
  own, theirs = means[rank.candidate], means[dense.candidate]
  arrives = _relative(own, theirs, higher) * dense.seconds
  if not math.isnan(risk.relative_steps):
    arrives = risk.relative_steps * dense.seconds * rank.whole / dense.whole
  arrives = min(arrives, rank.whole)
  expected = risk.expected(arrives, rank.whole, dense.seconds)
  return rank._replace(expected=expected, low=arrives, high=never, risk=risk)


def _rank(
  candidate: Candidate,
  mean: Curve,
  curves: Sequence[Curve],
  goals: Sequence[float],
  retrain_s: float,
  higher: bool,
) -> Rank:
  seconds, easier, harder = NEVER, [NEVER], [NEVER]
  if goals:
    reached = [_seconds(mean, goal, higher) for goal in goals]
    failed = mean.seconds[-1] + retrain_s
    seconds = statistics.fmean(failed if s == NEVER else s for s in reached)
    easier = [_seconds(curve, goals[-1], higher) for curve in curves]
    harder = [_seconds(curve, goals[0], higher) for curve in curves]
  low, high = min(seconds, *easier), max(seconds, *harder)
  spans, whole = (seconds, seconds, low, high), mean.seconds[-1]
  shown = mean.scores[0], targets.pick(higher)(mean.scores)
  return Rank(candidate, *spans, *shown, whole, 0, len(curves))


def _order(rank: Rank, higher: bool) -> tuple[float, float]:
  return rank.expected, -rank.score if higher else rank.score


def _seconds(curve: Curve, target: float, higher: bool) -> float:
  place = crossing.place(curve.scores, target, higher)
  return NEVER if place is None else crossing.at(curve.seconds, place)


def _relative(mine: Curve, dense: Curve, higher: bool) -> float:
  """The median ratio of seconds to all-reduce's, at scores that both reach."""
  ratios = [
    seconds / _seconds(dense, score, higher)
    for score in dense.scores
    if (seconds := _seconds(mine, score, higher)) != NEVER
  ]
  return statistics.median(ratios) if ratios else NEVER


def _mean(curves: Sequence[Curve]) -> Curve | None:
  """The mean curve over the evaluations that all seeds have, as in virtual time
  a seed may end early, at its target; None if a seed diverged."""
  if not all(len(c.scores) and np.isfinite(c.scores).all() for c in curves):
    return None
  shared = min(len(c.scores) for c in curves)
  return Curve(
    np.mean([c.scores[:shared] for c in curves], 0).tolist(),
    np.mean([c.seconds[:shared] for c in curves], 0).tolist(),
  )
