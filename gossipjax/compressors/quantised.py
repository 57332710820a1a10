"""Codecs that keep every entry, in fewer bits, rounded deterministically."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import packing
from gossipjax.compressors.compressor import Compressor
from gossipjax.compressors.largest import keys
from gossipjax.errors import UserError
from gossipjax.norms import needs_floats, wide, widened


class Quantised(NamedTuple):
  codes: jax.Array  # i8[n], or u8 with several codes to a byte.
  scale: jax.Array  # f32[], or f32[buckets].


def largest_magnitude(x: jax.Array, axis: int | None = None) -> jax.Array:
  """The largest |x|, of the dtype of x; NaN if an entry is NaN.

  `jnp.max` of more than about a thousand floats ignores NaN on CPUs. A codec
  with such a scale would send 0 for a NaN and keep it in its residual.

  Args:
    x: f[...].
    axis: over which it is taken; None is all.
  """
  most = keys(x).max(axis)
  return lax.bitcast_convert_type(most, wide(x.dtype)).astype(x.dtype)


def int8() -> Compressor:
  """Rounds to 255 levels up to the largest |x|: 1 byte per entry, plus 4."""

  def compress(x, key=None):
    del key
    needs_floats(x)
    x = widened(x)  # In float16, 127 times the scale may overflow.
    scale = largest_magnitude(x) / 127
    codes = jnp.round(x / jnp.where(scale > 0, scale, 1)).astype(jnp.int8)
    return Quantised(codes, scale)

  def decompress(message, size):
    del size
    return message.codes * message.scale

  return Compressor(compress, decompress)


def sign() -> Compressor:
  """Signs times the mean magnitude: 1 bit per entry, plus 4 bytes.

  Karimireddy et al., Error feedback fixes SignSGD, 2019. arXiv:1901.09847
  """

  def compress(x, key=None):
    del key
    needs_floats(x)
    return Quantised(packing.pack(x >= 0, 1), jnp.abs(x).mean())

  def decompress(message, size):
    positive = packing.unpack(message.codes, 1, size)
    return jnp.where(positive, message.scale, -message.scale)

  return Compressor(compress, decompress)


def ternary(x: jax.Array, threshold: jax.Array) -> jax.Array:
  """Codes of 2 bits, u8[ceil(n / 4)]: 3 for x >= t, 2 for x <= -t, else 0.

  Code 1 marks an x that is not finite. It has to reach the receivers; otherwise
  it would stay in a residual for ever, unseen.
  """
  codes = jnp.where(x >= threshold, 3, jnp.where(x <= -threshold, 2, 0))
  return packing.pack(jnp.where(jnp.isfinite(x), codes, 1), 2)


def signs(codes: jax.Array, size: int) -> jax.Array:
  """Decodes ternary codes: f32[size] of -1, 0, 1, and NaN."""
  codes = packing.unpack(codes, 2, size)
  found = (codes == 3).astype(jnp.float32) - (codes == 2).astype(jnp.float32)
  return jnp.where(codes == 1, jnp.nan, found)


def two_bit(threshold: float = 0.5) -> Compressor:
  """MXNet's codec: t for x >= t, -t for x <= -t, else 0; 2 bits per entry.

  The fourth code, which MXNet does not use, encodes values that are not finite;
  it decodes to NaN.

  All workers know t. A step removes at most t from an entry of the residual;
  the rest of a larger entry stays there.

  Args:
    threshold: t, in units of the gradient.

  Raises:
    UserError: the threshold is not above 0.
  """
  if not threshold > 0:
    raise UserError(f'threshold of two_bit must be above 0, got {threshold}.')

  def compress(x, key=None):
    del key
    needs_floats(x)
    return ternary(x, threshold)

  return Compressor(
    compress, lambda codes, size: threshold * signs(codes, size)
  )
