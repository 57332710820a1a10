"""Finds the entries of largest magnitude, exactly, in little over one pass.

A sample gives a threshold that about k to 2 k entries reach. One pass over all
entries finds them, as a bitmap, and the k largest are among them. If the sample
misleads, further passes correct the threshold. Magnitudes of floats have the
order of their bits read as integers, so that NaN counts as larger than infinity
and nothing is rounded.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import bisection, bitmap
from gossipjax.compressors.bisection import keys, search, without_ties
from gossipjax.devices.platform import platform
from gossipjax.norms import wide

_ROOM = 8192  # Candidates at least; fewer would need a larger sample.
_SAMPLED = 128  # Candidates expected in the sample; standard deviation 11.
# Where sorting candidates is faster than searching them: an H200 took 0.26, not
# 1.24 ms for 25.6 M entries, and 0.52, not 1.71 ms for 100 M. Loops are slow on
# GPUs, as the host reads their condition at each turn. CPUs search faster.
_SORTING = ('gpu',)


def _among(
  x: jax.Array, k: int, room: int, guess: jax.Array | None = None
) -> jax.Array:
  """k to `room` indices, including the k largest; ascending, padded with n."""
  found = without_ties(x, search(x, k, room, guess), k, room)
  return bitmap.indices(found, room, x.size)


def _among_in_few_kernels(
  x: jax.Array, k: int, room: int, guess: jax.Array
) -> jax.Array:
  """As `_among`; if the guess is right, the GPU waits for the host once."""

  def misleads(found):
    count = bitmap.total(found)
    return (count < k) | (count > room)

  found = lax.while_loop(
    misleads,
    lambda _: without_ties(x, search(x, k, room, guess), k, room),
    bisection.reaching(x, guess),
  )
  return bitmap.indices(found, room, x.size, at_once=room)


def _candidates(
  x: jax.Array, k: int, room: int, by_sorting: bool = False
) -> jax.Array:
  """As `_among`, with a guess from a sample, for a large x."""
  expected = 0.7 * room
  # An odd stride, so that the sample meets all columns of a layer.
  sample = x[:: int(expected / _SAMPLED) | 1]
  in_sample = expected * sample.size / x.size
  if by_sorting:
    guess = _sorted(keys(sample))[-max(1, int(in_sample))]
    return _among_in_few_kernels(x, k, room, guess)
  guess = search(sample, int(0.93 * in_sample), int(1.07 * in_sample) + 1).low
  return _among(x, k, room, guess)


def _is_by_sorting(by_sorting: bool | None) -> bool:
  return platform() in _SORTING if by_sorting is None else by_sorting


def _sorted(numbers: jax.Array) -> jax.Array:
  """Ascending. A stable sort, JAX's default, would carry indices along."""
  return lax.sort(numbers, is_stable=False)


def _first_of(ranks: jax.Array, k: int) -> jax.Array:
  """Places of the k largest ranks, i32[k], ascending; of ties the first.

  Ranks below 0 are left out; the result is padded with the size of `ranks`.
  """
  least = _sorted(ranks)[-k]
  more, ties = ranks > least, ranks == least
  few = k - more.sum(dtype=jnp.int32)
  kept = more | (ties & (jnp.cumsum(ties, dtype=jnp.int32) <= few))
  kept &= ranks >= 0
  place = jnp.where(kept, jnp.cumsum(kept, dtype=jnp.int32) - 1, k)
  places = jnp.arange(ranks.size, dtype=jnp.int32)
  padding = jnp.full(k, ranks.size, jnp.int32)
  return padding.at[place].set(places, mode='drop')


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
  found = search(x, least, most, key)
  kept = bitmap.indices(without_ties(x, found, least, most), most, x.size)
  return kept, lax.bitcast_convert_type(found.low, kind).astype(jnp.float32)


def largest_of(
  x: jax.Array, real: jax.Array, k: int, by_sorting: bool | None = None
) -> jax.Array:
  """Indices of the k largest |x| where `real`, ascending, padded with n.

  Args:
    x: f[n].
    real: bool[n].
    k: static, 1 to n.
    by_sorting: static; see `ascending`.
  """
  ranks = keys(x)
  if _is_by_sorting(by_sorting):
    return _first_of(jnp.where(real, ranks, -1), k)
  ranks = jnp.minimum(ranks, jnp.iinfo(ranks.dtype).max - 1) + 1
  ranks = lax.bitcast_convert_type(jnp.where(real, ranks, 0), wide(x.dtype))
  bits = without_ties(ranks, search(ranks, k, k), k, k)
  bits &= bitmap.words(real)
  return bitmap.indices(bits, k, x.size)


@functools.partial(jax.jit, static_argnames=('k', 'by_sorting'))
def ascending(
  x: jax.Array, k: int, by_sorting: bool | None = None
) -> jax.Array:
  """Indices of the k largest |x|, i32[k], ascending; cheaper than `largest`.

  Of ties the lower indices are kept. It usually takes one pass over x, and
  memory for some bitmaps of n bits and some lists of k, not for a copy of x.

  Args:
    x: f[n].
    k: static, 1 to n.
    by_sorting: static; sorts the sample and the candidates instead of searching
      them; None: on GPUs.
  """
  by_sorting = _is_by_sorting(by_sorting)
  room = max(2 * k, min(_ROOM, x.size // 64))
  if room > x.size // 48:  # Then lists of candidates cost more than passes.
    return _among(x, k, k)
  found = _candidates(x, k, room, by_sorting)
  values = x.at[found].get(mode='fill', fill_value=0)
  if by_sorting:  # Padding, which is 0, comes after k entries.
    return found[_first_of(keys(values), k)]
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
