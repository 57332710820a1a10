"""Codecs that round every entry to few bits, with a scale per block."""

import jax
import jax.numpy as jnp

from gossipjax.compressors import packing
from gossipjax.compressors.compressor import Compressor
from gossipjax.compressors.quantised import (
  Quantised,
  largest_magnitude,
)
from gossipjax.errors import UserError
from gossipjax.norms import needs_floats, widened

BITS = (2, 4, 8)


def _blocks(x: jax.Array, block: int) -> tuple[jax.Array, jax.Array]:
  """f32[n] as rows of a block each, and the largest magnitude of each row."""
  if block < 1:
    raise UserError(f'block must be at least 1 entry, got {block}.')
  needs_floats(x)
  rows = jnp.pad(widened(x), (0, -x.size % block)).reshape(-1, block)
  return rows, largest_magnitude(rows, axis=1)


def _repeated(scale: jax.Array, block: int, size: int) -> jax.Array:
  """The scale of each entry, f32[size]."""
  return jnp.repeat(scale, block)[:size]


def linear(bits: int = 4, block: int = 256) -> Compressor:
  """Rounds to the nearest of 2^bits - 1 equidistant levels, symmetric to zero.

  The outermost levels are plus and minus the largest magnitude of the block. It
  takes `bits` per entry, and 4 bytes per block. With 2 bits the levels are -1,
  0, 1 times that magnitude.

  Args:
    bits: 2, 4 or 8.
    block: entries that share a scale.

  Raises:
    UserError: `bits` is not one of those above, or `block` is below 1.
  """
  if bits not in BITS:
    raise UserError(f'bits of linear is 2, 4 or 8, got {bits}.')
  levels = 2 ** (bits - 1) - 1

  def compress(x, key=None):
    del key
    rows, most = _blocks(x, block)
    exact = levels * rows / jnp.where(most > 0, most, 1)[:, None]
    nearest = jnp.clip(jnp.round(exact), -levels, levels)
    # Modulo 2^bits, so that the code 0 means zero.
    codes = nearest.astype(jnp.int32) & 2**bits - 1
    return Quantised(packing.pack(codes.ravel()[: x.size], bits), most)

  def decompress(message, size):
    codes = packing.unpack(message.codes, bits, size).astype(jnp.int32)
    level = jnp.where(codes > levels, codes - 2**bits, codes)
    return level / levels * _repeated(message.scale, block, size)

  return Compressor(compress, decompress)


def e3m0(block: int = 256) -> Compressor:
  """A sign and 3 bits of exponent: zero, or 2^-6 to 1 times the largest.

  It takes 4 bits per entry, and 4 bytes per block. Magnitudes are rounded to
  the power of two nearest in the logarithm; those below 2^-6.5 of the block's
  largest become zero. The paper gives neither scale nor zero: they are ours.

  Douillard et al., Streaming DiLoCo with overlapping communication, 2025.
  arXiv:2501.18512

  Args:
    block: entries that share a scale.
  """

  def compress(x, key=None):
    del key
    rows, most = _blocks(x, block)
    share = jnp.abs(rows) / jnp.where(most > 0, most, 1)[:, None]
    power = 7 + jnp.round(jnp.log2(jnp.maximum(share, 2.0**-30)))
    power = jnp.clip(power, 0, 7).astype(jnp.int32)
    codes = (power + 8 * (rows < 0)).ravel()[: x.size]
    return Quantised(packing.pack(codes, 4), most)

  def decompress(message, size):
    codes = packing.unpack(message.codes, 4, size).astype(jnp.int32)
    power = codes & 7
    level = jnp.where(power > 0, jnp.exp2(power - 7.0), 0)
    level = jnp.where(codes & 8, -level, level)
    return level * _repeated(message.scale, block, size)

  return Compressor(compress, decompress)
