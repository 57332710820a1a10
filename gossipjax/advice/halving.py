"""Successive halving: short trainings of many, longer ones of the best half.

A candidate is a strategy with a learning rate. All candidates of a round train
for the same number of steps, each with the whole schedule. All-reduce and the
half of the others with the lowest expected seconds, see `ranking`, at least
KEPT, enter the next round. Another link may thus keep other candidates.

Jamieson and Talwalkar, Non-stochastic best arm identification, 2016.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple

from gossipjax.advice.ranking import DENSE, Candidate, Curve, Rank, ranked
from gossipjax.advice.risk import Risk
from gossipjax.comparison.targets import SHARE

KEPT = 2  # Strategies that a round keeps at least, beside all-reduce.


class Round(NamedTuple):
  """How long all candidates of a round train, and with how many seeds."""

  steps: int
  seeds: int


class Pilot(NamedTuple):
  """One short training."""

  candidate: Candidate
  steps: int
  seed: int


def survivors(others: int) -> int:
  """How many of the strategies beside all-reduce enter the next round."""
  return min(others, max(KEPT, -(-others // 2)))


def entering(ranks: Sequence[Rank]) -> list[Candidate]:
  """All-reduce and the others that enter the next round.

  Args:
    ranks: of a round, the fewest expected seconds first.
  """
  every = [rank.candidate for rank in ranks]
  dense = [candidate for candidate in every if candidate.name == DENSE]
  others = [candidate for candidate in every if candidate.name != DENSE]
  return dense + others[: survivors(len(others))]


Halving = Generator[list[Pilot], list[Curve], list[Rank]]


def halving(
  candidates: Sequence[Candidate],
  rounds: Sequence[Round],
  full: int,
  higher: bool,
  seed: int = 0,
  on_round: Callable[[list[Rank]], None] = lambda ranks: None,
  risks: Mapping[str, Risk] | None = None,
  share: float = SHARE,
) -> Halving:
  """Yields the pilots of a round; is sent their curves, in the same order.

  Args:
    candidates: including all-reduce, named DENSE.
    rounds: each with no fewer steps than the one before.
    full: steps of the training that is forecast.
    higher: whether large scores are good.
    seed: the first of the consecutive seeds.
    on_round: called with the ranks of each complete round.
    risks, share: see `ranked`.

  Returns:
    A rank for each name of the last round, the fewest expected seconds first;
    [] if all-reduce diverged.
  """
  alive, ranks = [*candidates], []
  for steps, seeds in rounds:
    pilots = [Pilot(c, steps, seed + s) for c in alive for s in range(seeds)]
    curves = yield pilots
    by_candidate: dict[Candidate, list[Curve]] = {}
    for pilot, curve in zip(pilots, curves, strict=True):
      by_candidate.setdefault(pilot.candidate, []).append(curve)
    ranks = ranked(by_candidate, steps, full, higher, risks, share)
    if all(rank.candidate.name != DENSE for rank in ranks):
      return []  # There is nothing to compare with.
    on_round(ranks)
    alive = entering(ranks)
  return ranks
