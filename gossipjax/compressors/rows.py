"""Keeps the rows of a matrix with the largest magnitude, with a bitmap."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import packing


class Rows(NamedTuple):
  values: jax.Array  # f32[..., k, d], in the order of their rows.
  bitmap: jax.Array  # u8[..., ceil(rows / 8)]


def compress(matrices: jax.Array, k: int, together: bool) -> Rows:
  """Keeps the k rows of each matrix with the largest mean magnitude.

  Args:
    matrices: f32[matrices, rows, d].
    k: static, 1 to rows.
    together: whether all matrices keep the same rows, those with the largest
      mean over matrices; for matrices that hold parts of the same rows.
  """
  scores = jnp.abs(matrices).mean(axis=2)
  if together:
    scores = jnp.broadcast_to(scores.mean(axis=0), scores.shape)
  best = jnp.sort(lax.top_k(scores, k)[1], axis=1)
  kept = jax.vmap(lambda rows, i: rows.at[i].set(True))(
    jnp.zeros(scores.shape, bool), best
  )
  return Rows(
    jnp.take_along_axis(matrices, best[:, :, None], axis=1),
    jax.vmap(lambda mask: packing.pack(mask, 1))(kept),
  )


def decompress(message: Rows, rows: int) -> jax.Array:
  """One matrix, f32[rows, d], with zeros in the rows not kept."""
  k, d = message.values.shape
  mask = packing.unpack(message.bitmap, 1, rows)
  kept = jnp.nonzero(mask, size=k, fill_value=rows)[0]
  zeros = jnp.zeros((rows, d), message.values.dtype)
  return zeros.at[kept].set(message.values, mode='drop')
