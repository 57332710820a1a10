"""Which strategy pilots recommend."""

import math
from collections.abc import Mapping, Sequence

from gossipjax.advice.forecast import Forecast
from gossipjax.advice.halving import DENSE, Rank
from gossipjax.advice.known_runs import Known

GAIN = 0.05  # Less of all-reduce's seconds is no reason to leave it.
LEARNT = 0.5  # Of its first loss all-reduce's pilots have to lose.


def against(found: Sequence[Forecast]) -> dict[str, Known]:
  """By name, a run near the config that never got where all-reduce did."""
  return {
    f.name: run for f in found for run in f.known if math.isinf(run.steps)
  }


def chosen(
  ranks: Sequence[Rank], doubts: Mapping[str, Known] | None = None
) -> str:
  """The name that pilots recommend: the one of the least forecast mean.

  All-reduce stays unless it loses more than GAIN by that: it costs no accuracy.
  Intervals don't decide, since to wait for disjoint ones loses more seconds
  than it saves (`experiments/advice_quality.py`); they are told. What a whole
  training says counts more than a pilot. Pilots that end before all-reduce has
  learnt say nothing of the end: who is ahead there often never arrives.

  Args:
    ranks: the quickest first.
    doubts: see `against`.
  """
  first, dense = usable(ranks, doubts)[0], dense_of(ranks)
  gains = first.seconds < (1 - GAIN) * dense.seconds
  return first.candidate.name if gains and not too_early(ranks) else DENSE


def too_early(ranks: Sequence[Rank]) -> bool:
  """Whether all-reduce's pilots end with most of the loss they began with."""
  return dense_of(ranks).learnt < LEARNT


def usable(
  ranks: Sequence[Rank], doubts: Mapping[str, Known] | None
) -> list[Rank]:
  """The ranks that no whole training speaks against."""
  return [rank for rank in ranks if rank.candidate.name not in (doubts or {})]


def dense_of(ranks: Sequence[Rank]) -> Rank:
  """The rank of all-reduce."""
  return next(rank for rank in ranks if rank.candidate.name == DENSE)
