"""Sets of places, a bit each, in words of 32."""

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import packing


def words(mask: jax.Array) -> jax.Array:
  """bool[n] to u32[ceil(n / 32)]."""
  octets = packing.pack(jnp.pad(mask, (0, -mask.size % 32)), 1)
  return lax.bitcast_convert_type(octets.reshape(-1, 4), jnp.uint32)


def ones(bits: jax.Array) -> jax.Array:
  """How many are in each word, i32."""
  return lax.population_count(bits).astype(jnp.int32)


def _place(bits: jax.Array, rank: jax.Array) -> jax.Array:
  """Where in a word its bit of that rank is, 0 to 31."""
  place = jnp.zeros_like(rank)
  for half in (16, 8, 4, 2, 1):
    below = ones(bits & jnp.uint32(2**half - 1))
    above = rank >= below
    bits = jnp.where(above, bits >> half, bits)
    rank -= jnp.where(above, below, 0)
    place += jnp.where(above, half, 0)
  return place


def indices(bits: jax.Array, room: int, size: int) -> jax.Array:
  """Of the first `room` bits that are set, ascending; then `size`."""
  ends = jnp.cumsum(ones(bits))
  rank = jnp.arange(room, dtype=jnp.int32)
  word = jnp.searchsorted(ends, rank, side='right').astype(jnp.int32)
  word = jnp.minimum(word, bits.size - 1)
  begin = ends[word] - ones(bits[word])
  return jnp.where(rank < ends[-1],
                   32 * word + _place(bits[word], rank - begin), size)
