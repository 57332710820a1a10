"""Sums of sparse messages whose entries are in the order of their indices."""

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import largest
from gossipjax.compressors.sparse import Sparse


def in_order(message: Sparse) -> Sparse:
  """The same entries by ascending index, as all below needs them."""
  return Sparse(*lax.sort(message[::-1], num_keys=1)[::-1])


def merge(a: Sparse, b: Sparse, size: int) -> Sparse:
  """The sum of two messages in order, also in order; a, b commute.

  An entry's place is its rank in its own message and in the other, so that
  nothing is sorted: O(k log k) with a smaller constant.

  Returns:
    `len(a) + len(b)` entries; where a and b shared an index one is left over
    and says so with index `size`, in the midst of the others.
  """
  below = jnp.searchsorted(b.indices, a.indices)  # So many of b before each.
  up_to = jnp.searchsorted(a.indices, b.indices, side='right')
  twin = jnp.minimum(below, b.indices.size - 1)
  shared = b.indices[twin] == a.indices
  again = (up_to > 0) & (a.indices[jnp.maximum(up_to - 1, 0)] == b.indices)
  a = a._replace(values=jnp.where(shared, a.values + b.values[twin], a.values))
  b = Sparse(jnp.where(again, 0, b.values), jnp.where(again, size, b.indices))
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
  """The k largest entries (ties by position), in order, empty ones last; and
  all with those zeroed."""
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
  """Whether each of `indices` has an entry in `message`, in order; bool."""
  place = jnp.searchsorted(message.indices, indices)
  last = message.indices.size - 1
  return message.indices[jnp.minimum(place, last)] == indices
