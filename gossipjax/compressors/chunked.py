"""Few entries of each chunk of a vector, in few bits each."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import packing
from gossipjax.compressors.compressor import Compressor
from gossipjax.compressors.quantised import needs_floats
from gossipjax.compressors.sparse import count
from gossipjax.errors import UserError


class Chunks(NamedTuple):
  indices: jax.Array  # u16[chunks, k], within the chunk.
  codes: jax.Array  # u8[ceil(chunks * k / 4)]; sign, and index of the level.
  levels: jax.Array  # f32[chunks, 2]; mean magnitudes of small, large entries.


def _levels(magnitude: jax.Array):
  """Which of f32[chunks, k] reach their chunk's mean; means of both sets."""
  large = magnitude >= magnitude.mean(axis=1, keepdims=True)
  mean = lambda of: (
    (magnitude * of).sum(axis=1) / jnp.maximum(1, of.sum(axis=1))
  )
  return large, jnp.stack([mean(~large), mean(large)], axis=1)


def chunk_topk(density: float = 0.02, chunk: int = 4096) -> Compressor:
  """The largest entries of each chunk, as signs times one of two levels.

  2 bits and an index of 2 bytes per entry, and 8 bytes per chunk. The form is
  that of SparseLoCo; the levels are ours.

  Sarfi et al., Communication efficient LLM pre-training with SparseLoCo, 2025.
  arXiv:2508.15706

  Args:
    density: k / chunk.
    chunk: entries of a chunk; a shorter vector is one chunk.
  """
  if not 1 <= chunk <= 2**16:
    raise UserError(f'chunk is from 1 to 65536 entries, got {chunk}.')
  count(density, chunk)

  def compress(x, key=None):
    del key
    needs_floats(x)
    width = min(chunk, x.size)
    chunks = jnp.pad(x, (0, -x.size % width)).reshape(-1, width)
    indices = lax.top_k(jnp.abs(chunks), count(density, width))[1]
    values = jnp.take_along_axis(chunks, indices, axis=1)
    large, levels = _levels(jnp.abs(values))
    codes = packing.pack((2 * (values < 0) + large).ravel(), 2)
    return Chunks(indices.astype(jnp.uint16), codes, levels)

  def decompress(message, size):
    width, shape = min(chunk, size), message.indices.shape
    codes = packing.unpack(message.codes, 2, message.indices.size)
    codes = codes.reshape(shape)
    values = jnp.take_along_axis(
      message.levels, (codes & 1).astype(jnp.int32), axis=1
    )
    values = jnp.where(codes & 2, -values, values)
    rows = jnp.arange(shape[0])[:, None]
    chunks = (
      jnp.zeros((shape[0], width))
      .at[rows, message.indices.astype(jnp.int32)]
      .add(values)
    )
    return chunks.reshape(-1)[:size]

  return Compressor(compress, decompress)
