"""A parameter server for sparse messages, shared out over the workers.

Worker j owns the entries j, j + P, j + 2P and so on. Neighboring entries, which
tend to be large together, then have different owners.

How many entries a worker sends to an owner is known only at run time, but a
compiled message has a fixed size. Entries therefore travel in boxes, arrays
with room for a power of two of entries: all workers agree on the smallest box
that fits, and the program branches on it, so that fewer entries are fewer
bytes.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import collectives
from gossipjax.collectives import WORKERS
from gossipjax.compressors import bitmap, packing
from gossipjax.compressors.sparse import Sparse
from gossipjax.traffic import Traffic


def share(size: int) -> int:
  """Entries that each worker owns, with padding."""
  return -(-size // lax.axis_size(WORKERS))


def _boxes(least: int, most: int) -> list[int]:
  """Sizes of boxes: powers of two from `least` on, and last `most`."""
  powers = [
    2**e
    for e in range(
      max(least - 1, 0).bit_length(), max(most - 1, 0).bit_length()
    )
  ]
  return [*powers, most]


def _boxed(need: jax.Array, boxes: list[int], move: Callable):
  """Runs `move(box)` with the smallest box that fits on all workers."""
  need, agreeing = collectives.all_max(need)
  which = sum((need > box).astype(jnp.int32) for box in boxes[:-1])
  *result, sent = lax.switch(
    which, [functools.partial(move, box) for box in boxes]
  )
  return *result, sent + agreeing


def add_up(messages: Sparse, size: int) -> jax.Array:
  """The sum of stacked messages, f32[size], bit-identical on all devices.

  Messages are added one after the other: the order in which one scatter adds
  equal indices is not specified.
  """

  def add(total, message):
    return total.at[message.indices].add(message.values, mode='drop'), None

  return lax.scan(add, jnp.zeros(size), messages)[0]


def _by_owner(message: Sparse, size: int):
  """Entries sorted by owner: the owners, the entries, entries per owner."""
  n = lax.axis_size(WORKERS)
  owner = jnp.where(message.indices < size, message.indices % n, n)
  order = jnp.argsort(owner, stable=True)
  return (
    owner[order],
    jax.tree.map(lambda x: x[order], message),
    (jnp.bincount(owner, length=n)),
  )


def push(message: Sparse, size: int) -> tuple[jax.Array, jax.Array, Traffic]:
  """Sends every entry, 8 bytes, to its owner, which adds up what arrives.

  Args:
    message: entries of a vector.
    size: of that vector.

  Returns:
    The sums of the entries that this worker owns, f32[share]; which of them
    any worker sent, bool[share]; the bill.
  """
  n, mine, k = lax.axis_size(WORKERS), share(size), message.indices.size
  owner, (values, indices), counts = _by_owner(message, size)
  place = jnp.arange(k) - (jnp.cumsum(counts) - counts)[owner.clip(max=n - 1)]

  def move(box):
    # In a sparse message of `mine` entries the index `mine` means no entry.
    at = owner, jnp.where(owner < n, place, box)
    rows = Sparse(
      jnp.zeros((n, box)).at[at].set(values, mode='drop'),
      jnp.full((n, box), mine, jnp.int32).at[at].set(indices // n, mode='drop'),
    )
    theirs, sent = collectives.all_to_all(rows)
    touched = (
      jnp.zeros(mine, bool).at[theirs.indices.ravel()].set(True, mode='drop')
    )
    return add_up(theirs, mine), touched, sent

  return _boxed(counts.max(), _boxes(-(-k // n), min(k, mine)), move)


def _bitmap_is_cheaper(box: int, mine: int) -> bool:
  return -(-mine // 8) < 4 * box


def pull(
  values: jax.Array, mask: jax.Array, size: int, k: int
) -> tuple[jax.Array, jax.Array, Traffic]:
  """Every owner sends its masked entries to all workers.

  With their indices or with a bitmap of all it owns, whichever is smaller.

  Args:
    values: f32[share], of the entries that this worker owns.
    mask: bool[share], which of them it sends.
    size: of the whole vector.
    k: entries of a message that was pushed; it sets the smallest box.

  Returns:
    The whole vector, f32[size], with zeros where no entry arrived; which
    entries arrived, bool[size]; the bill.
  """
  n, mine = lax.axis_size(WORKERS), values.size

  def move(box):
    indices = bitmap.indices(bitmap.words(mask), box, mine)
    chosen = values.at[indices].get(mode='fill', fill_value=0)
    cheaper = _bitmap_is_cheaper(box, mine)
    where = packing.pack(mask, 1) if cheaper else indices
    (chosen, where), _, sent = collectives.all_gather((chosen, where))
    if cheaper:
      there = jax.vmap(lambda bits: packing.unpack(bits, 1, mine))(where) > 0
      where = jnp.where(there, jnp.cumsum(there, axis=1) - 1, box)
      dense = jax.vmap(lambda c, w: c.at[w].get(mode='fill', fill_value=0))(
        chosen, where
      )
    else:
      scatter = lambda c, w: jnp.zeros(mine, c.dtype).at[w].set(c, mode='drop')
      dense = jax.vmap(scatter)(chosen, where)
      there = jax.vmap(scatter)(jnp.ones_like(chosen, bool), where)
    whole = lambda rows: rows.T.reshape(-1)[:size]
    return whole(dense), whole(there), sent

  boxes = _boxes(-(-k // n), min(mine, k * n))
  return _boxed(mask.sum(), boxes, move)
