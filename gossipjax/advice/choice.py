"""Which strategy to use: that of the least expected seconds."""

from collections.abc import Sequence

from gossipjax.advice.ranking import DENSE, Rank

GAIN = 0.05  # Of all-reduce's seconds; who saves less does not replace it.


def chosen(ranks: Sequence[Rank]) -> str:
  """The name of the strategy to use.

  All-reduce, unless another strategy is expected to save more than GAIN of its
  time to the target: all-reduce costs no accuracy.

  Args:
    ranks: the least expected seconds first.
  """
  first, dense = ranks[0], dense_of(ranks)
  gains = first.expected < (1 - GAIN) * dense.expected
  return first.candidate.name if gains else DENSE


def dense_of(ranks: Sequence[Rank]) -> Rank:
  """The rank of all-reduce."""
  return next(rank for rank in ranks if rank.candidate.name == DENSE)
