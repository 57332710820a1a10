"""Top-k codecs and their sparse messages; merging.py adds two messages."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import quantised
from gossipjax.compressors.compressor import Compressor
from gossipjax.compressors.selections import Selection, exact
from gossipjax.errors import UserError, nearest
from gossipjax.norms import wide

LONGEST = 2**31 - 32  # Entries, in whole words of a bitmap.


class Sparse(NamedTuple):
  """Entries of a vector of size n; an index of n means no entry."""

  values: Any  # f32[k], or a message that encodes it.
  indices: jax.Array  # i32[k], distinct.


def count(density: float, size: int) -> int:
  """The number k of entries that a density keeps of `size`, at least one.

  For a small tensor that is exchanged by itself, such as a bias, density * size
  may be below 1: one entry is kept.

  Raises:
    UserError: the density is outside (0, 1].
  """
  if not 0 < density <= 1:
    raise UserError(f'density must be above 0 and at most 1, got {density}.')
  return max(1, round(density * size))


def check_keeps(density: float, size: int, key: str = 'density') -> None:
  """Raises a UserError for a density that keeps less than one entry."""
  if round(density * size) < 1:
    raise UserError(
      f'{key}={density} keeps none of {size} entries; '
      f'it has to be at least {1 / size:.2g}.'
    )


def check_size(size: int) -> None:
  """Raises a UserError for a vector too long for indices of 32 bits."""
  if size > LONGEST:
    raise UserError(
      f'{size:,} entries are more than the {LONGEST:,} that indices of 32 bits '
      'can tell apart; set granularity.name=layer, bucket or shards, or take a '
      'codec without indices, such as int8, if the strategy has such arguments.'
    )


def choose(
  x: jax.Array, density: float, selection: Selection, step=None, memory=()
) -> tuple[Sparse, Any]:
  """Selects entries of a vector.

  Args:
    x: f32[n].
    density: k / n.
    selection: how the entries are found.
    step: i32[], the same on all workers.
    memory: the selection's memory, as its last call returned it.

  Returns:
    The entries, and the new memory.

  Raises:
    UserError: the vector is too long.
  """
  check_size(x.size)
  x, k = jnp.asarray(x), count(density, x.size)
  indices, memory = selection.select(x, k, step, memory)
  return Sparse(x.at[indices].get(mode='fill', fill_value=0), indices), memory


def scatter(message: Sparse, size: int) -> jax.Array:
  """The sum of one message or of several stacked ones, f32[size]."""
  return (
    jnp.zeros(size, wide(message.values.dtype))
    .at[message.indices.ravel()]
    .add(message.values.ravel(), mode='drop')
  )


def _compressor(
  selection: Selection,
  proceed: Callable,
  decompress: Callable,
  mean: Callable | None = None,
  subtract: Callable | None = None,
) -> Compressor:
  """Returns a compressor of the given functions, with a selection's memory.

  Its `compress` keeps no memory and so refuses a selection that needs one.
  """

  def compress(x, key=None):
    if selection.start is not None:
      raise UserError(
        'This selection needs its choice of the previous step, which is not '
        'kept here; set selection.name=exact, or in diloco and '
        'streaming_diloco exchange=gather.'
      )
    return proceed(x, key, None, ())[0]

  keeps = proceed if selection.start else None
  return Compressor(
    compress, decompress, mean, subtract, selection.start, keeps
  )


class Encoding(NamedTuple):
  encode: Callable[[jax.Array], jax.Array]  # f32[k] to the values that travel.
  decode: Callable[[jax.Array], jax.Array]  # And back.


DTYPES = {
  'float32': Encoding(lambda x: x, lambda x: x),
  # As integers of 16 bits: XLA for CPUs would move bf16 as f32.
  'bfloat16': Encoding(
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

  It takes 8 bytes per entry, an f32 value and an i32 index; 2 fewer with dtype
  bfloat16, and 2 fewer with the selection blockwise.

  Args:
    density: k / n.
    selection: how the largest entries are found, exactly or nearly.
    dtype: of the values that are sent, float32 or bfloat16.

  Raises:
    UserError: the density is not above 0 and at most 1, or the dtype is
      unknown.
  """
  count(density, 10**9)  # An impossible density is refused before any math.
  if dtype not in DTYPES:
    raise UserError(f'dtype={dtype} of topk is unknown{nearest(dtype, DTYPES)}')
  encoding = DTYPES[dtype]

  def proceed(x, key, step, memory):
    del key
    (values, indices), memory = choose(x, density, selection, step, memory)
    indices = selection.narrow(indices, x.size)
    return Sparse(encoding.encode(values), indices), memory

  def read(message, size):
    indices = selection.widen(message.indices, size)
    return Sparse(encoding.decode(message.values), indices)

  def mean(messages, size, count):
    values, indices = read(messages, size)
    # Divides k entries of each message, not the n of their sum.
    return scatter(Sparse(values / count, indices), size)

  def subtract(x, message):
    values, indices = read(message, x.size)
    return jnp.asarray(x).at[indices].add(-values, mode='drop')

  decompress = lambda message, size: scatter(read(message, size), size)
  return _compressor(selection, proceed, decompress, mean, subtract)


def topk_int8(
  density: float = 0.01, selection: Selection = exact.selection()
) -> Compressor:
  """Top-k with int8 values: 5 bytes per entry, plus 4.

  Args:
    density: k / n.
    selection: how the largest entries are found, exactly or nearly.
  """
  sparse, dense = topk(density, selection), quantised.int8()

  def proceed(x, key, step, memory):
    message, memory = sparse.next(x, key, step, memory)
    return message._replace(values=dense.compress(message.values)), memory

  def decompress(message, size):
    values = dense.decompress(message.values, message.indices.size)
    return sparse.decompress(Sparse(values, message.indices), size)

  return _compressor(selection, proceed, decompress)
