"""Sets of indices as bitmaps, in words of 32 bits."""

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import packing

_AT_ONCE = 2048  # Indices found together, which bounds the temporary arrays.


def words(mask: jax.Array) -> jax.Array:
  """Packs bool[n] into u32[ceil(n / 32)]."""
  octets = packing.pack(jnp.pad(mask, (0, -mask.size % 32)), 1)
  return lax.bitcast_convert_type(octets.reshape(-1, 4), jnp.uint32)


def ones(bits: jax.Array) -> jax.Array:
  """The number of bits set in each word, i32."""
  return lax.population_count(bits).astype(jnp.int32)


def total(bits: jax.Array) -> jax.Array:
  """The number of bits set in all words, i32[], also where i64 is enabled."""
  return ones(bits).sum(dtype=jnp.int32)


def _place(bits: jax.Array, rank: jax.Array) -> jax.Array:
  """The position in a word of its set bit of that rank, 0 to 31."""
  place = jnp.zeros_like(rank)
  for half in (16, 8, 4, 2, 1):
    below = ones(bits & jnp.uint32(2**half - 1))
    above = rank >= below
    bits = jnp.where(above, bits >> half, bits)
    rank -= jnp.where(above, below, 0)
    place += jnp.where(above, half, 0)
  return place


def _counts(bits: jax.Array) -> list[jax.Array]:
  """Bits set in each word, in each two words, each four, and so on to all."""
  levels = [ones(bits)]
  while levels[-1].size > 1:
    pairs = jnp.pad(levels[-1], (0, levels[-1].size % 2)).reshape(-1, 2)
    levels.append(pairs[:, 0] + pairs[:, 1])
  return levels


def indices(bits: jax.Array, room: int, size: int) -> jax.Array:
  """Positions of the first `room` set bits, ascending, padded with `size`."""
  *levels, every = _counts(bits)

  def find(first, count):
    wanted = first + jnp.arange(count, dtype=jnp.int32)
    rank, word = wanted, jnp.zeros_like(wanted)
    for level in reversed(levels):
      left = level[2 * word]
      right = rank >= left
      rank -= jnp.where(right, left, 0)
      word = jnp.minimum(2 * word + right, level.size - 1)
    place = 32 * word + _place(bits[word], rank)
    return jnp.where(wanted < every[0], place, size)

  if room <= _AT_ONCE:
    return find(0, room)

  def fill(i, found):
    first = jnp.minimum(i * _AT_ONCE, room - _AT_ONCE).astype(jnp.int32)
    return lax.dynamic_update_slice(found, find(first, _AT_ONCE), (first,))

  return lax.fori_loop(
    0, -(-room // _AT_ONCE), fill, jnp.zeros(room, jnp.int32)
  )
