"""Successive halving: short trainings of many, longer ones of the best half.

A strategy with a learning rate is a candidate. In each round all candidates
train as many steps, each with the whole schedule; the half that is first to
what all-reduce reached trains longer. Seconds are those of the link that is
asked about, so that another link keeps another half.

Jamieson and Talwalkar, Non-stochastic best arm identification, 2016.
"""

import statistics
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gossipjax.comparison import target_costs
from gossipjax.results import crossing

DENSE = 'all_reduce'
NEVER = target_costs.NEVER
# Goals of a forecast, below the best score of all-reduce.
WORSE = (0.01, 0.02, 0.04, 0.08)


class Candidate(NamedTuple):
  """What is tried: a variant's name, and a learning rate."""

  name: str
  rate: float


class Round(NamedTuple):
  """How long all candidates of a round train, and with how many seeds."""

  steps: int
  seeds: int


class Pilot(NamedTuple):
  """One short training."""

  candidate: Candidate
  steps: int
  seed: int


class Curve(NamedTuple):
  """What a pilot left: an entry for each evaluation; none if it diverged."""

  scores: Sequence[float]  # On validation data.
  seconds: Sequence[float]  # Computing and communication, since the start.
  learnt: float = 1.0  # Share of the untrained model's loss that is gone.


class Rank(NamedTuple):
  """What is forecast of a candidate.

  Attributes:
    candidate: at the best rate of its name.
    seconds: to what all-reduce reaches, of a training of full length: the mean
      over WORSE goals, of the mean over seeds; one goal, or seed, is noise. A
      goal that is not reached costs the whole training and then all-reduce's.
    low: those of the quickest seed to the easiest goal.
    high: those of the slowest seed to the hardest.
    score: the best of the mean over seeds.
    steps: of the pilots.
    seeds, learnt: number of pilots, and the mean of what they learnt.
  """

  candidate: Candidate
  seconds: float
  low: float
  high: float
  score: float
  steps: int
  seeds: int
  learnt: float


Halving = Generator[list[Pilot], list[Curve], list[Rank]]


def halving(
  candidates: Sequence[Candidate],
  rounds: Sequence[Round],
  full: int,
  higher: bool,
  seed: int = 0,
  told: Callable[[list[Rank]], None] = lambda ranks: None,
) -> Halving:
  """Asks for pilots and gets their curves, in the same order.

  Args:
    candidates: among them all-reduce, named DENSE.
    rounds: each with no fewer steps than the one before.
    full: steps of the training that is forecast.
    higher: whether large scores are good.
    seed: the first.
    told: called with the ranks of each round that is complete.

  Returns:
    A rank for each name of the last round, the quickest first; none if
    all-reduce diverged.
  """
  alive, ranks = [*candidates], []
  for i, (steps, seeds) in enumerate(rounds):
    asked = [Pilot(c, steps, seed + s) for c in alive for s in range(seeds)]
    curves = yield asked
    by: dict[Candidate, list[Curve]] = {}
    for pilot, curve in zip(asked, curves, strict=True):
      by.setdefault(pilot.candidate, []).append(curve)
    ranks = ranked(by, steps, full, higher)
    dense = [r.candidate for r in ranks if r.candidate.name == DENSE]
    if not dense:
      return []  # There is nothing to compare with.
    told(ranks)
    if i + 1 < len(rounds):
      others = [r.candidate for r in ranks if r.candidate.name != DENSE]
      alive = dense + others[: -(-len(others) // 2)]
  return ranks


def ranked(
  curves: Mapping[Candidate, Sequence[Curve]],
  steps: int,
  full: int,
  higher: bool,
) -> list[Rank]:
  """A rank for each name, at its best rate, the quickest first.

  Args:
    curves: of each candidate, one for each seed.
    steps: of the pilots.
    full: steps of the training that is forecast.
    higher: whether large scores are good.
  """
  means = {c: mean for c, each in curves.items() if (mean := _mean(each))}
  dense = [mean for c, mean in means.items() if c.name == DENSE]
  bests = [_best(mean, higher) for mean in dense]
  goals = [
    target_costs.share(target_costs.pick(higher)(bests), higher, worse)
    for worse in (WORSE if bests else ())
  ]
  again = min((_seconds(m, goals[0], higher) for m in dense), default=NEVER)
  found: dict[str, Rank] = {}
  for candidate, mean in means.items():
    rank = _rank(candidate, mean, curves[candidate], goals, again, higher)
    scaled = {
      k: getattr(rank, k) * full / steps for k in ('seconds', 'low', 'high')
    }
    rank = rank._replace(steps=steps, **scaled)
    other = found.get(candidate.name)
    if other is None or _order(rank, higher) < _order(other, higher):
      found[candidate.name] = rank
  return sorted(found.values(), key=lambda rank: _order(rank, higher))


def _rank(
  candidate: Candidate,
  mean: Curve,
  curves: Sequence[Curve],
  goals: Sequence[float],
  again: float,
  higher: bool,
) -> Rank:
  seconds, easier, each = NEVER, [NEVER], [NEVER]
  if goals:
    reached = [_seconds(mean, goal, higher) for goal in goals]
    failed = mean.seconds[-1] + again
    seconds = statistics.fmean(failed if s == NEVER else s for s in reached)
    easier = [_seconds(curve, goals[-1], higher) for curve in curves]
    each = [_seconds(curve, goals[0], higher) for curve in curves]
  low, high = min(seconds, *easier), max(seconds, *each)
  best = _best(mean, higher)
  return Rank(candidate, seconds, low, high, best, 0, len(curves), mean.learnt)


def _order(rank: Rank, higher: bool) -> tuple[float, float]:
  return rank.seconds, -rank.score if higher else rank.score


def _seconds(curve: Curve, target: float, higher: bool) -> float:
  place = crossing.place(curve.scores, target, higher)
  return NEVER if place is None else crossing.at(curve.seconds, place)


def _mean(curves: Sequence[Curve]) -> Curve | None:
  """Of the seeds, at each evaluation; None if a seed diverged."""
  if not all(len(c.scores) and np.isfinite(c.scores).all() for c in curves):
    return None
  return Curve(
    np.mean([c.scores for c in curves], 0).tolist(),
    np.mean([c.seconds for c in curves], 0).tolist(),
    statistics.fmean(c.learnt for c in curves),
  )


def _best(curve: Curve, higher: bool) -> float:
  return target_costs.pick(higher)(curve.scores)
