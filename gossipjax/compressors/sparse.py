"""Few entries with their indices. How two are added: see merging.py."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import quantised
from gossipjax.compressors.compressor import Compressor
from gossipjax.compressors.selections import Selection, exact
from gossipjax.errors import UserError, nearest


class Sparse(NamedTuple):
  """Entries of a vector of n; an index of n means no entry."""

  values: Any  # f32[k], or a message that stands for it.
  indices: jax.Array  # i32[k], distinct.


def count(density: float, size: int) -> int:
  """k, the entries that a density keeps of `size`."""
  if not 0 < density <= 1:
    raise UserError(f'density is above 0 and at most 1, got {density}.')
  k = round(density * size)
  if k == 0:
    raise UserError(
      f'density={density} keeps none of {size} entries; '
      f'it has to be at least {1 / size:.2g}.'
    )
  return k


def choose(
  x: jax.Array, density: float, selection: Selection, step=None, memory=()
) -> tuple[Sparse, Any]:
  """The chosen entries of f32[n], and what the selection remembers."""
  x, k = jnp.asarray(x), count(density, x.size)
  indices, memory = selection.select(x, k, step, memory)
  return Sparse(x.at[indices].get(mode='fill', fill_value=0), indices), memory


def scatter(message: Sparse, size: int) -> jax.Array:
  """Adds up the entries of one message or of several stacked ones."""
  return (
    jnp.zeros(size)
    .at[message.indices.ravel()]
    .add(message.values.ravel(), mode='drop')
  )


def _compressor(
  selection: Selection, proceed: Callable, *back: Callable
) -> Compressor:
  """Whose `compress` is for those who keep no memory, or refuses them."""
  if selection.start is None:
    return Compressor(lambda x, key=None: proceed(x, key, None, ())[0], *back)

  def refuse(x, key=None):
    raise UserError(
      'This selection goes by the step before, which only topk, '
      'gtopk, exact_global_topk, ok_topk, union_topk, dgc and '
      'compressed remember; take exact.'
    )

  return Compressor(refuse, *back)._replace(
    start=selection.start, proceed=proceed
  )


# How values travel: on the way out, and back. A CPU would move bf16 as f32.
DTYPES = {
  'float32': (lambda x: x, lambda x: x),
  'bfloat16': (
    lambda x: lax.bitcast_convert_type(x.astype(jnp.bfloat16), jnp.uint16),
    lambda x: lax.bitcast_convert_type(x, jnp.bfloat16).astype('f4'),
  ),
}


def topk(
  density: float = 0.01,
  selection: Selection = exact.selection(),
  dtype: str = 'float32',
) -> Compressor:
  """Keeps the `density * n` largest entries (Aji & Heafield, 2017).

  8 bytes an entry: f32 value, i32 index; 2 less with dtype bfloat16, and 2 less
  with the selection blockwise.

  Args:
    density: k / n.
    selection: of the largest, or nearly.
    dtype: of the values that travel, float32 or bfloat16.
  """
  count(density, 10**9)  # An impossible density is refused before any math.
  if dtype not in DTYPES:
    raise UserError(f'dtype={dtype} of topk is unknown{nearest(dtype, DTYPES)}')
  encode, decode = DTYPES[dtype]

  def proceed(x, key, step, memory):
    del key
    kept, memory = choose(x, density, selection, step, memory)
    return Sparse(
      encode(kept.values), selection.narrow(kept.indices, x.size)
    ), memory

  read = lambda message, size: Sparse(
    decode(message.values), selection.widen(message.indices, size)
  )

  def mean(messages, size, count):
    values, indices = read(messages, size)
    # Few divisions, and the sum is written once.
    return scatter(Sparse(values / count, indices), size)

  def subtract(x, message):
    values, indices = read(message, x.size)
    return jnp.asarray(x).at[indices].add(-values, mode='drop')

  return _compressor(
    selection,
    proceed,
    lambda message, size: scatter(read(message, size), size),
    mean,
    subtract,
  )


def topk_int8(
  density: float = 0.01, selection: Selection = exact.selection()
) -> Compressor:
  """Top-k whose surviving values travel as int8: 5 bytes an entry, 4 more."""
  sparse, dense = topk(density, selection), quantised.int8()

  def proceed(x, key, step, memory):
    message, memory = sparse.next(x, key, step, memory)
    return message._replace(values=dense.compress(message.values)), memory

  def decompress(message, size):
    values = dense.decompress(message.values, message.indices.size)
    return sparse.decompress(Sparse(values, message.indices), size)

  return _compressor(selection, proceed, decompress)


def threshold(threshold: float, density: float = 0.01) -> Compressor:
  """Keeps the entries with |x| >= threshold, the largest first.

  A program's messages have a fixed size, so room for `density * n` entries
  travels, 8 bytes each, however many are taken; what finds no room is left
  for an error feedback.

  Args:
    threshold: in units of x.
    density: the room, a part of n.
  """
  if threshold < 0:
    raise UserError(f'threshold is at least 0, got {threshold}.')
  room = topk(density)

  def compress(x, key=None):
    values, indices = room.compress(x, key)
    large = jnp.abs(values) >= threshold
    return Sparse(
      jnp.where(large, values, 0), jnp.where(large, indices, x.size)
    )

  return room._replace(compress=compress)
