"""Selects the entries above a threshold that is found in a sample.

Lin et al., Deep gradient compression, 2018. arXiv:1712.01887
"""

from gossipjax.compressors import largest as find
from gossipjax.compressors.selections import Selection
from gossipjax.errors import UserError


def selection(rate: float = 0.01) -> Selection:
  """Indices ascend; k of them are sent in 4 bytes each, even if some are empty.

  A threshold that more than k or fewer than 0.8 k entries reach is corrected.
  The paper instead selects again among the entries that reach it, if they are
  too many.

  Args:
    rate: size of the sample over that of the vector; paper: 0.001 to 0.01.
  """
  if not 0 < rate <= 1:
    raise UserError(
      f'rate of sampled must be above 0 and at most 1, got {rate}.'
    )

  def select(x, k, step, memory):
    del step
    # An odd stride, so that the sample meets all columns of a layer.
    sample = x[:: round(1 / rate) | 1]
    in_sample = 0.9 * k * sample.size / x.size
    guess = find.above(
      sample, max(1, int(0.95 * in_sample)), max(1, round(1.05 * in_sample))
    )[1]
    return find.above(x, -(-8 * k // 10), k, guess)[0], memory

  return Selection(select)
