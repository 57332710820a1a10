"""Which strategy pilots recommend."""

from collections.abc import Sequence

from gossipjax.advice.ranking import DENSE, Rank

GAIN = 0.05  # Less of all-reduce's seconds is no reason to leave it.
LEARNT = 0.5  # Of its first loss all-reduce's pilots have to lose.


def chosen(ranks: Sequence[Rank]) -> str:
  """The name that pilots recommend: the one of the least expected seconds.

  All-reduce stays unless it loses more than GAIN by that: it costs no accuracy.
  Intervals don't decide, since to wait for disjoint ones loses more seconds
  than it saves (`experiments/advice_quality.py`); they are told. Pilots that
  end before all-reduce has learnt say nothing of the end: who is ahead there
  often never arrives.

  Args:
    ranks: the least expected seconds first.
  """
  first, dense = ranks[0], dense_of(ranks)
  gains = first.expected < (1 - GAIN) * dense.expected
  return first.candidate.name if gains and not too_early(ranks) else DENSE


def too_early(ranks: Sequence[Rank]) -> bool:
  """Whether all-reduce's pilots end with most of the loss they began with."""
  return dense_of(ranks).learnt < LEARNT


def dense_of(ranks: Sequence[Rank]) -> Rank:
  """The rank of all-reduce."""
  return next(rank for rank in ranks if rank.candidate.name == DENSE)
