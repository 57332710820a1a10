"""Every entry, in fewer bits."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax.compressors.compressor import Compressor


class Quantised(NamedTuple):
  codes: jax.Array  # i8[n]
  scale: jax.Array  # f32[]


def int8() -> Compressor:
  """Rounds to 255 levels of the largest magnitude: 1 byte an entry, 4 more."""

  def compress(x, key=None):
    del key
    scale = jnp.max(jnp.abs(x)) / 127
    codes = jnp.round(x / jnp.where(scale > 0, scale, 1)).astype(jnp.int8)
    return Quantised(codes, scale)

  def decompress(message, size):
    del size
    return message.codes * message.scale

  return Compressor(compress, decompress)
