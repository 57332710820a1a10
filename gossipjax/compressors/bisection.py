"""Bisection for a threshold that enough entries reach, and these entries.

Thresholds are keys: integers in the order of magnitudes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import bitmap
from gossipjax.norms import widened

_STRIDE = 512  # Factor by which the steps from a wrong guess grow.


class Search(NamedTuple):
  """A bisection for the threshold, between two keys."""

  low: jax.Array  # int[]; enough entries reach this key.
  high: jax.Array  # int[]; too few entries reach this key.
  key: jax.Array  # int[]; the next one to count.
  step: jax.Array  # int[]; from `key` to the one after it.
  enough: jax.Array  # u32[ceil(n / 32)]; a bit for each entry that reaches low.
  reached: jax.Array  # i32[]; bits of `enough`.


def keys(x: jax.Array) -> jax.Array:
  """Integers in the order of |x|."""
  x = widened(x)
  bits = lax.bitcast_convert_type(x, f'i{x.dtype.itemsize}')
  return bits & jnp.iinfo(bits.dtype).max


def reaching(x: jax.Array, key: jax.Array) -> jax.Array:
  """A bitmap of the entries that reach a key."""
  # Otherwise XLA computes all keys before a loop and stores them.
  x, key = lax.optimization_barrier((x, key))
  return bitmap.words(keys(x) >= key)


def search(
  x: jax.Array, least: int, most: int, guess: jax.Array | None = None
) -> Search:
  """Finds a key that `least` to `most` entries reach, or the key of a tie."""
  kind = jax.eval_shape(keys, x).dtype
  top = jnp.iinfo(kind).max
  zero, all_ones = jnp.zeros((), kind), ~jnp.zeros(-(-x.size // 32), jnp.uint32)
  start = Search(
    zero,
    zero + top,
    zero + top // 2 if guess is None else guess,
    zero + (top // _STRIDE if guess is None else 1),
    all_ones,
    jnp.int32(32 * all_ones.size),
  )

  def look(s):
    bits, key = reaching(x, s.key), s.key
    count = bitmap.total(bits)
    enough = count >= least
    pick = lambda a, b: jnp.where(enough, a, b)
    low, high = pick(key, s.low), pick(s.high, key)
    half = (high - low) // 2
    step = jnp.minimum(s.step, half)
    return Search(
      low,
      high,
      pick(low + step, high - step),
      jnp.minimum(s.step, top // _STRIDE) * _STRIDE,
      pick(bits, s.enough),
      pick(count, s.reached),
    )

  goes_on = lambda s: (s.reached > most) & (s.high - s.low > 1)
  return lax.while_loop(goes_on, look, start)


def without_ties(x: jax.Array, s: Search, least: int, most: int) -> jax.Array:
  """A bitmap of `least` to `most` entries; of ties the lower indices."""
  start = 32 * jnp.arange(s.enough.size)
  # A loop, since under vmap a condition computes both branches. The highest key
  # is the initial upper bound of a search, whose entries were not counted.
  ties = (s.reached > most) & (s.high < jnp.iinfo(s.high.dtype).max)
  few = lax.while_loop(
    lambda state: state[0],
    lambda state: (jnp.zeros_like(ties), reaching(x, s.high)),
    (ties, jnp.zeros_like(s.enough)),
  )[1]

  def until(end):
    width = jnp.clip(end - start, 0, 32).astype(jnp.uint32)
    below = jnp.where(width < 32, (jnp.uint32(1) << width) - 1, ~jnp.uint32(0))
    return few | (s.enough & below)

  def look(state):
    low, high, _ = state
    middle = low + (high - low) // 2  # Their sum may overflow.
    bits = until(middle)
    short = bitmap.total(bits) < least
    return jnp.where(short, middle, low), jnp.where(short, high, middle), bits

  def fails(state):
    count = bitmap.total(state[2])
    return (count > most) | (count < least)

  end = jnp.int32(32 * s.enough.size)
  return lax.while_loop(fails, look, (jnp.zeros_like(end), end, s.enough))[2]
