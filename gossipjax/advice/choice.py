"""Chooses the strategy to use, by expected seconds to the target."""

from collections.abc import Sequence

from gossipjax.advice.ranking import DENSE, Rank

GAIN = 0.05  # Of all-reduce's time; a strategy has to save more to replace it.


def chosen(ranks: Sequence[Rank]) -> str:
  """Returns the name of the strategy to use.

  It is all-reduce unless another strategy is expected to save more than GAIN of
  its time to the target, since all-reduce costs no accuracy.

  Args:
    ranks: sorted by expected seconds, ascending.
  """
  first, dense = ranks[0], dense_of(ranks)
  gains = first.expected < (1 - GAIN) * dense.expected
  return first.candidate.name if gains else DENSE


def dense_of(ranks: Sequence[Rank]) -> Rank:
  """The rank of all-reduce."""
  return next(rank for rank in ranks if rank.candidate.name == DENSE)
