"""Codecs that keep every entry, in fewer bits, rounded at random without bias.

Unbiased codecs need no error feedback. Their error can exceed the vector, so
that error feedback would diverge.
"""

import jax
import jax.numpy as jnp

from gossipjax.compressors import packing
from gossipjax.compressors.compressor import Compressor
from gossipjax.compressors.quantised import (
  Quantised,
  largest_magnitude,
  signs,
)
from gossipjax.errors import UserError
from gossipjax.norms import needs_floats, widened


def needs_key(key: jax.Array | None) -> None:
  """Refuses a random compressor without a key.

  Raises:
    UserError: `key` is None.
  """
  if key is None:
    raise UserError('A random compressor needs a key in compress(x, key).')


def terngrad(clip: float | None = 2.5) -> Compressor:
  """Signs times the largest magnitude s, kept with probability |x| / s.

  It takes 2 bits per entry, plus 4 bytes.

  Wen et al., TernGrad: ternary gradients, 2017. arXiv:1705.07878

  Args:
    clip: standard deviations to which larger entries are clipped first. This is
      a bias: a tensor whose entries are nearly equal loses most of their mean.
      None does not clip. In a config None means the default; 1e9 does not clip.

  Raises:
    UserError: `clip` is not above 0.
  """
  if clip is not None and not clip > 0:
    raise UserError(
      f'clip must be above 0 standard deviations, got {clip}; 1e9 clips '
      'nothing.'
    )

  def compress(x, key=None):
    needs_key(key)
    needs_floats(x)
    x = widened(x)
    if clip is not None:
      # Entries that are all equal deviate by rounding only.
      most = jnp.where(x.max() > x.min(), clip * x.std(), jnp.inf)
      x = jnp.clip(x, -most, most)
    scale = largest_magnitude(x)
    kept = jax.random.uniform(key, x.shape) * scale < jnp.abs(x)
    codes = jnp.where(kept, jnp.where(x > 0, 3, 2), 0)
    return Quantised(packing.pack(codes, 2), scale)

  def decompress(message, size):
    return message.scale * signs(message.codes, size)

  # Unbiased except for clipping. A kept entry has an error of s - |x|.
  return Compressor(compress, decompress, unbiased=True, expands=True)


def _near_one(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Divides each row by a power of two, which is exact, so that squares neither
  underflow nor overflow; also returns the exponents."""
  _, power = jnp.frexp(largest_magnitude(rows, axis=1))
  return jnp.ldexp(rows, -power[:, None]), power


def qsgd(levels: int = 7, bucket: int = 512) -> Compressor:
  """Rounds |x| / |bucket|_2 up or down to a multiple of 1 / levels.

  The 2 levels + 1 codes take 2, 4 or 8 bits per entry, the fewest that hold
  them, and each bucket takes 4 bytes more.

  Alistarh et al., QSGD, 2017. arXiv:1610.02132; its experiments include 4 bits
  and buckets of 512 entries.

  Args:
    levels: s, from 1 (2 bits) to 127 (8 bits); 7 is the most for 4 bits.
    bucket: entries that share a norm, at least 1.

  Raises:
    UserError: `levels` or `bucket` is out of its range.
  """
  if not 1 <= levels <= 127:
    raise UserError(f'levels must be from 1 to 127, got {levels}.')
  if bucket < 1:
    raise UserError(f'bucket must be at least 1 entry, got {bucket}.')
  bits = packing.width(2 * levels + 1)

  def compress(x, key=None):
    needs_key(key)
    needs_floats(x)
    rows = jnp.pad(widened(x), (0, -x.size % bucket)).reshape(-1, bucket)
    rows, power = _near_one(rows)
    norm = jnp.linalg.norm(rows, axis=1)
    exact = levels * rows / jnp.where(norm > 0, norm, 1)[:, None]
    codes = jnp.floor(exact + jax.random.uniform(key, rows.shape))
    codes = jnp.clip(codes, -levels, levels)  # The sum may be rounded up.
    # Modulo 2^bits, so that the code 0 means zero.
    codes = codes.astype(jnp.int32) & 2**bits - 1
    packed = packing.pack(codes.ravel()[: x.size], bits)
    return Quantised(packed, jnp.ldexp(norm, power))

  def decompress(message, size):
    codes = packing.unpack(message.codes, bits, size).astype(jnp.int32)
    level = jnp.where(codes > levels, codes - 2**bits, codes)
    return level / levels * jnp.repeat(message.scale, bucket)[:size]

  # On average |error|^2 is at most sqrt(bucket) / levels |x|^2.
  expands = levels**2 <= bucket
  return Compressor(compress, decompress, unbiased=True, expands=expands)
