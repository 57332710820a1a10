"""Adds and splits sparse messages whose indices ascend."""

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import largest
from gossipjax.compressors.sparse import Sparse
from gossipjax.devices.platform import platform

# Of `jnp.searchsorted`: on a GPU one kernel in place of a loop of them.
_METHODS = {'gpu': 'scan_unrolled'}


def ranks(
  ordered: jax.Array, values: jax.Array, side: str = 'left'
) -> jax.Array:
  """How many entries of `ordered` lie before each value, i32[len(values)].

  Args:
    ordered: ascending.
    values: in any order.
    side: 'left'; 'right' counts equal ones, too.
  """
  method = _METHODS.get(platform(), 'scan')
  return jnp.searchsorted(ordered, values, side, method=method)


def in_order(message: Sparse) -> Sparse:
  """The message with ascending indices, which the functions below need."""
  return Sparse(*lax.sort(message[::-1], num_keys=1)[::-1])


def merge(a: Sparse, b: Sparse, size: int) -> Sparse:
  """The sum, in order, of two messages in order; a and b can be swapped.

  An entry's position is the sum of its ranks in both messages, so that nothing
  is sorted: O(k log k) with a smaller constant.

  Args:
    a: in order.
    b: in order.
    size: of the vector.

  Returns:
    `len(a) + len(b)` entries. For each index in both messages one of them is
    empty: it stands between the others and has the index `size`.
  """
  below = ranks(b.indices, a.indices)
  up_to = ranks(a.indices, b.indices, side='right')
  twin = jnp.minimum(below, b.indices.size - 1)
  shared = b.indices[twin] == a.indices
  merged = (up_to > 0) & (a.indices[jnp.maximum(up_to - 1, 0)] == b.indices)
  a = a._replace(values=jnp.where(shared, a.values + b.values[twin], a.values))
  b = Sparse(jnp.where(merged, 0, b.values), jnp.where(merged, size, b.indices))
  place = jnp.concatenate(
    [jnp.arange(below.size) + below, jnp.arange(up_to.size) + up_to]
  )
  return jax.tree.map(
    lambda x, y: (
      jnp.zeros(place.size, x.dtype)
      .at[place]
      .set(jnp.concatenate([x, y]), unique_indices=True)
    ),
    a,
    b,
  )


def split(message: Sparse, k: int, size: int) -> tuple[Sparse, Sparse]:
  """The k largest entries of a message, and the message without them.

  Args:
    message: in order, possibly with empty entries in between.
    k: static.
    size: of the vector.

  Returns:
    The k largest in order, of ties the first, empty entries last; the message
    with the values of those k set to 0.
  """
  best = largest.largest_of(message.values, message.indices < size, k)
  kept = Sparse(
    message.values.at[best].get(mode='fill', fill_value=0),
    message.indices.at[best].get(mode='fill', fill_value=size),
  )
  return kept, message._replace(
    values=message.values.at[best].set(0, mode='drop')
  )


def values_in(total: Sparse, message: Sparse) -> jax.Array:
  """Values of `message`, f32[k], with 0 where `total` has no such index.

  Args:
    total: in order.
    message: in any order.
  """
  return jnp.where(contains(total, message.indices), message.values, 0)


def contains(message: Sparse, indices: jax.Array) -> jax.Array:
  """Whether `message`, in order, has an entry of each of `indices`; bool."""
  place = ranks(message.indices, indices)
  last = message.indices.size - 1
  return message.indices[jnp.minimum(place, last)] == indices
