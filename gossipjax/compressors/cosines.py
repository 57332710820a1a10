"""Compresses the cosine transform of blocks of a vector."""

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax.compressors.compressor import Compressor, mean_over_senders
from gossipjax.errors import UserError


def matrix(side: int) -> np.ndarray:
  """The orthonormal DCT-II, f64[side, side]: coefficients = matrix @ values."""
  k, j = np.arange(side)[:, None], np.arange(side)[None]
  rows = np.cos(np.pi * (j + 0.5) * k / side) * np.sqrt(2 / side)
  rows[0] /= np.sqrt(2)
  return rows


def in_cosines(side: int, codec: Compressor, over: str) -> Compressor:
  """Encodes coefficients of blocks of side x side entries, in order.

  The last block is padded with zeros. The transform is orthonormal: an error
  has the same norm in coefficients as in entries.

  Args:
    side: width and height of a block; 1 is no transform.
    codec: encodes the coefficients, f32[entries, padded to whole blocks].
    over: the mean of messages is over 'all', or for each coefficient over the
      'senders' whose message has it.

  Raises:
    UserError: `side` is below 1.
  """
  if side < 1:
    raise UserError(f'block must be at least 1 entry wide, got {side}.')
  basis = matrix(side).astype(np.float32)

  def forward(x):
    blocks = jnp.pad(x, (0, -x.size % side**2)).reshape(-1, side, side)
    return jnp.einsum('ik,bkl,jl->bij', basis, blocks, basis).ravel()

  def backward(coefficients: jax.Array, size: int) -> jax.Array:
    blocks = coefficients.reshape(-1, side, side)
    return jnp.einsum('ki,bkl,lj->bij', basis, blocks, basis).ravel()[:size]

  def filled(size: int) -> int:
    return size + -size % side**2

  def mean(messages, size, count):
    if over == 'senders':
      averaged = mean_over_senders(codec, messages, filled(size))
    else:
      averaged = codec.mean(messages, filled(size), count)
    return backward(averaged, size)

  return Compressor(
    lambda x, key=None: codec.compress(forward(x), key),
    lambda message, size: backward(
      codec.decompress(message, filled(size)), size
    ),
    mean,
  )
