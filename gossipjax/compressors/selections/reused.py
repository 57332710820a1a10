"""Selects by the threshold of the last step; exactly at every m-th step.

Li and Hoefler, Near-optimal sparse allreduce for distributed deep learning,
2022. arXiv:2201.07598
"""

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import largest as find
from gossipjax.compressors.selections import Selection
from gossipjax.errors import UserError


def selection(period: int = 8) -> Selection:
  """Indices ascend; k of them are sent in 4 bytes each, even if some are empty.

  A threshold that more than k or fewer than 0.8 k entries reach is corrected
  and then kept. The paper does not correct it and sends all entries that reach
  it.

  Args:
    period: m, steps from one exact selection to the next.
  """
  if period < 1:
    raise UserError(f'period of reused must be at least 1 step, got {period}.')

  def exactly(x, k):
    indices = find.ascending(x, k)
    # Not the k-th magnitude, which half of all steps would have to correct.
    middle = find.above(x[indices], -(-85 * k // 100), -(-95 * k // 100))[1]
    return indices, middle

  def select(x: jax.Array, k: int, step, memory):
    return lax.cond(
      step % period == 0,
      lambda: exactly(x, k),
      lambda: find.above(x, -(-8 * k // 10), k, memory),
    )

  return Selection(select, lambda: jnp.float32(0))
