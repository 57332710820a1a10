"""Selects the largest entry of each of k blocks; an index takes 16 bits.

A block consists of every k-th entry, since neighboring entries tend to be large
together. Unlike the exact selection, it misses entries that share a block with
a larger one.
"""

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import largest as find
from gossipjax.compressors.selections import Selection
from gossipjax.errors import UserError


def _rows(size: int, k: int) -> int:
  rows = -(-size // k)
  if rows > 2**16:
    raise UserError(
      'selection=blockwise stores an index in 16 bits, so that density has to '
      f'be at least {2**-16:.2g}, got {k / size:.2g}.'
    )
  return rows


def _select(x: jax.Array, k: int, step, memory):
  del step
  last = _rows(x.size, k) - 1

  def look(row, keys, best):
    key, place = best
    return jnp.maximum(key, keys), jnp.where(keys > key, row, place)

  tail = x[last * k :]
  keys = jnp.pad(find.keys(tail), (0, k - tail.size), constant_values=-1)
  first = find.keys(x[:k]) if last else keys
  best = lax.fori_loop(
    1,
    last,
    lambda row, best: look(
      row, find.keys(lax.dynamic_slice_in_dim(x, row * k, k)), best
    ),
    (first, jnp.zeros(k, jnp.int32)),
  )
  place = look(last, keys, best)[1]
  return place * k + jnp.arange(k, dtype=jnp.int32), memory


def _widen(places: jax.Array, size: int) -> jax.Array:
  del size
  block = lax.broadcasted_iota(jnp.int32, places.shape, places.ndim - 1)
  return places.astype(jnp.int32) * places.shape[-1] + block


def selection() -> Selection:
  """Indices take 2 bytes, in the order of blocks; k is at least n / 2^16."""
  narrow = lambda indices, size: (indices // indices.size).astype(jnp.uint16)
  return Selection(_select, None, narrow, _widen, in_order=False, largest=False)
