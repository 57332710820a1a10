"""Finds the entries of largest magnitude, exactly, in little over one pass.

A sample gives a threshold that about k to 2 k entries reach. One pass over all
entries finds them, as a bitmap, and the k largest are among them. If the sample
misleads, further passes correct the threshold. Magnitudes of floats have the
order of their bits read as integers, so that NaN counts as larger than infinity
and nothing is rounded.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import bitmap
from gossipjax.norms import wide, widened

_ROOM = 8192  # Candidates at least; fewer would need a larger sample.
_SAMPLED = 128  # Candidates expected in the sample; standard deviation 11.
_STRIDE = 512  # Factor by which the steps from a wrong guess grow.


class _Search(NamedTuple):
  """A bisection for the threshold, between two keys."""

  low: jax.Array  # int[]; enough entries reach this key.
  high: jax.Array  # int[]; too few entries reach this key.
  key: jax.Array  # int[]; the next one to count.
  step: jax.Array  # int[]; from `key` to the one after it.
  enough: jax.Array  # u32[ceil(n / 32)]; a bit for each entry that reaches low.
  count: jax.Array  # i32[]; bits of `enough`.


def keys(x: jax.Array) -> jax.Array:
  """Integers in the order of |x|."""
  x = widened(x)
  bits = lax.bitcast_convert_type(x, f'i{x.dtype.itemsize}')
  return bits & jnp.iinfo(bits.dtype).max


def _reaching(x: jax.Array, key: jax.Array) -> jax.Array:
  """A bitmap of the entries that reach a key."""
  # Otherwise XLA computes all keys before a loop and stores them.
  x, key = lax.optimization_barrier((x, key))
  return bitmap.words(keys(x) >= key)


def _search(
  x: jax.Array, least: int, most: int, guess: jax.Array | None = None
) -> _Search:
  """Finds a key that `least` to `most` entries reach, or that of a tie."""
  kind = jax.eval_shape(keys, x).dtype
  top = jnp.iinfo(kind).max
  zero, every = jnp.zeros((), kind), ~jnp.zeros(-(-x.size // 32), jnp.uint32)
  start = _Search(
    zero,
    zero + top,
    zero + top // 2 if guess is None else guess,
    zero + (top // _STRIDE if guess is None else 1),
    every,
    jnp.int32(32 * every.size),
  )

  def look(s):
    bits, key = _reaching(x, s.key), s.key
    count = bitmap.total(bits)
    found = count >= least
    pick = lambda a, b: jnp.where(found, a, b)
    low, high = pick(key, s.low), pick(s.high, key)
    half = (high - low) // 2
    step = jnp.minimum(s.step, half)
    return _Search(
      low,
      high,
      pick(low + step, high - step),
      jnp.minimum(s.step, top // _STRIDE) * _STRIDE,
      pick(bits, s.enough),
      pick(count, s.count),
    )

  more = lambda s: (s.count > most) & (s.high - s.low > 1)
  return lax.while_loop(more, look, start)


def _without_ties(x: jax.Array, s: _Search, least: int, most: int) -> jax.Array:
  """A bitmap of `least` to `most` entries; of ties the lower indices."""
  start = 32 * jnp.arange(s.enough.size)
  # A loop, since under vmap a condition computes both branches. The highest key
  # is the start of a search and was not counted.
  ties = (s.count > most) & (s.high < jnp.iinfo(s.high.dtype).max)
  few = lax.while_loop(
    lambda state: state[0],
    lambda state: (False, _reaching(x, s.high)),
    (ties, jnp.zeros_like(s.enough)),
  )[1]

  def until(end):
    own = jnp.clip(end - start, 0, 32).astype(jnp.uint32)
    below = jnp.where(own < 32, (jnp.uint32(1) << own) - 1, ~jnp.uint32(0))
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


def _among(
  x: jax.Array, k: int, room: int, guess: jax.Array | None = None
) -> jax.Array:
  """k to `room` indices, with the k largest, ascending, padded with n."""
  found = _without_ties(x, _search(x, k, room, guess), k, room)
  return bitmap.indices(found, room, x.size)


def _candidates(x: jax.Array, k: int, room: int) -> jax.Array:
  """As `_among`, with a guess from a sample, for a large x."""
  expected = 0.7 * room
  # An odd stride, so that the sample meets all columns of a layer.
  sample = x[:: int(expected / _SAMPLED) | 1]
  wanted = expected * sample.size / x.size
  guess = _search(sample, int(0.93 * wanted), int(1.07 * wanted) + 1).low
  return _among(x, k, room, guess)


@functools.partial(jax.jit, static_argnames=('least', 'most'))
def above(
  x: jax.Array, least: int, most: int, guess: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
  """The `least` to `most` largest |x|, in one pass if the guess is right.

  Args:
    x: f[n].
    least, most: static, 1 to n.
    guess: f32[], a threshold that about so many entries reach.

  Returns:
    Indices, i32[most], ascending, padded with n; the threshold that they reach,
    f32[].
  """
  kind = wide(x.dtype)
  key = None if guess is None else keys(guess.astype(kind))
  found = _search(x, least, most, key)
  kept = bitmap.indices(_without_ties(x, found, least, most), most, x.size)
  return kept, lax.bitcast_convert_type(found.low, kind).astype(jnp.float32)


def largest_of(x: jax.Array, real: jax.Array, k: int) -> jax.Array:
  """Indices of the k largest |x| where `real`, ascending, padded with n."""
  ranks = keys(x)
  ranks = jnp.minimum(ranks, jnp.iinfo(ranks.dtype).max - 1) + 1
  ranks = lax.bitcast_convert_type(jnp.where(real, ranks, 0), wide(x.dtype))
  bits = _without_ties(ranks, _search(ranks, k, k), k, k)
  bits &= bitmap.words(real)
  return bitmap.indices(bits, k, x.size)


@functools.partial(jax.jit, static_argnames='k')
def ascending(x: jax.Array, k: int) -> jax.Array:
  """Indices of the k largest |x|, i32[k], ascending; cheaper than `largest`.

  Of ties the lower indices are kept. It usually takes one pass over x, and
  memory for some bitmaps of n bits and some lists of k, not for a copy of x.

  Args:
    x: f[n].
    k: static, 1 to n.
  """
  room = max(2 * k, min(_ROOM, x.size // 64))
  if room > x.size // 48:  # Then lists of candidates cost more than passes.
    return _among(x, k, k)
  found = _candidates(x, k, room)
  values = x.at[found].get(mode='fill', fill_value=0)
  return found[_among(values, k, k)]


@functools.partial(jax.jit, static_argnames='k')
def largest(x: jax.Array, k: int) -> jax.Array:
  """Indices of the k largest |x|, i32[k], as `lax.top_k(abs(x), k)` gives them.

  In the order of their magnitude, of ties the lower index first.

  Args:
    x: f[n].
    k: static, 1 to n.
  """
  found = ascending(x, k)
  descending = ~keys(x[found])
  return lax.sort((descending, found), num_keys=1, is_stable=True)[1]
