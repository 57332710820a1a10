"""Sparse messages of the entries above a given threshold."""

import jax.numpy as jnp

from gossipjax.compressors.compressor import Compressor
from gossipjax.compressors.sparse import Sparse, topk
from gossipjax.errors import UserError


def threshold(threshold: float, density: float = 0.01) -> Compressor:
  """Keeps the entries with |x| >= threshold, the largest first.

  Messages of a compiled program have a fixed size, so that `density * n`
  entries of 8 bytes are sent, however many are used. Further entries above the
  threshold are left to the error feedback.

  Args:
    threshold: in units of x.
    density: k / n, where a message has room for k entries.

  Raises:
    UserError: the threshold is below 0, or the density not above 0 and at most
      1.
  """
  if not threshold >= 0:
    raise UserError(f'threshold must be at least 0, got {threshold}.')
  room = topk(density)

  def compress(x, key=None):
    values, indices = room.compress(x, key)
    small = jnp.abs(values) < threshold  # A NaN is not small: it is sent.
    return Sparse(
      jnp.where(small, 0, values), jnp.where(small, x.size, indices)
    )

  return room._replace(compress=compress)
