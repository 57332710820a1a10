"""Sets of indices as bitmaps, in words of 32 bits."""

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import packing

_AT_ONCE = 8192
_BLOCK = 4  # Words whose bits are counted together; a power of two.


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
  """The position, 0 to 31, of the set bit with the given rank in each word."""
  place = jnp.zeros_like(rank)
  for half in (16, 8, 4, 2, 1):
    below = ones(bits & jnp.uint32(2**half - 1))
    above = rank >= below
    bits = jnp.where(above, bits >> half, bits)
    rank -= jnp.where(above, below, 0)
    place += jnp.where(above, half, 0)
  return place


def _within(bits: jax.Array, word: jax.Array, rank: jax.Array) -> jax.Array:
  """The position of the set bit with the given rank, counted from the first
  word of a block."""
  at = lambda word: bits.at[word].get(mode='fill', fill_value=0)
  half = _BLOCK
  while half := half // 2:
    below = sum(ones(at(word + i)) for i in range(half))
    above = rank >= below
    rank -= jnp.where(above, below, 0)
    word += jnp.where(above, half, 0)
  return 32 * word + _place(at(word), rank)


def indices(
  bits: jax.Array, room: int, size: int, at_once: int = _AT_ONCE
) -> jax.Array:
  """Positions of the first `room` set bits, ascending, padded with `size`.

  The number of each block of words with set bits is written at the place of its
  first set bit; the places that follow, up to the next block, look it up there.

  Args:
    bits: u32[ceil(size / 32)].
    room: static; length of the result.
    size: static; number of bits.
    at_once: static; indices found together, which bounds the temporary arrays.
  """
  width = 32 * _BLOCK
  blocks = jnp.pad(ones(bits), (0, -bits.size % _BLOCK)).reshape(-1, _BLOCK)
  counts = blocks.sum(axis=1, dtype=jnp.int32)
  ends = jnp.cumsum(counts, dtype=jnp.int32)
  starts, num_ones = ends - counts, ends[-1]
  first = jnp.where(counts > 0, starts, room)
  positions = width * jnp.arange(counts.size, dtype=jnp.int32)
  found = jnp.zeros(room, jnp.int32).at[first].set(positions, mode='drop')
  at_once = min(room, at_once)

  def fill(i, found):
    # The last turn begins earlier if it is not full, among positions already
    # found. These lie in their blocks, so that it finds the same ones again.
    begin = jnp.minimum(i * at_once, room - at_once).astype(jnp.int32)
    before = found[jnp.maximum(begin - 1, 0)]
    part = lax.dynamic_slice(found, (begin,), (at_once,))
    block = lax.cummax(jnp.maximum(part, before) // width)
    rank = begin + jnp.arange(at_once, dtype=jnp.int32)
    place = _within(bits, _BLOCK * block, rank - starts[block])
    place = jnp.where(rank < num_ones, place, size)
    return lax.dynamic_update_slice(found, place, (begin,))

  return lax.fori_loop(0, -(-room // at_once), fill, found)
