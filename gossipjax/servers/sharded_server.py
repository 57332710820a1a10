"""A vector shared out over the workers: j owns the entries j, j + P, j + 2P...

A parameter server for sparse messages without a machine of its own. Taken in
turn, neighboring entries, which are large together, have different owners.

How many entries a worker has for an owner is known when the program runs, but
the size of what a program moves is not up to the run. So they travel in boxes
of a power of two: all agree on the smallest that holds everyone's, and only
then does the program branch, so that fewer entries really are fewer bytes.
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
  """How many entries each worker owns, counting what pads the last ones."""
  return -(-size // lax.axis_size(WORKERS))


def _boxes(least: int, most: int) -> list[int]:
  """Powers of two from the first to hold `least`; `most` is the last."""
  powers = [
    2**e
    for e in range(
      max(least - 1, 0).bit_length(), max(most - 1, 0).bit_length()
    )
  ]
  return [*powers, most]


def _boxed(need: jax.Array, boxes: list[int], move: Callable):
  """Runs `move(box)` with the smallest box that holds everyone's need."""
  need, agreeing = collectives.all_max(need)
  which = sum((need > box).astype(jnp.int32) for box in boxes[:-1])
  *result, sent = lax.switch(
    which, [functools.partial(move, box) for box in boxes]
  )
  return *result, sent + agreeing


def add_up(messages: Sparse, size: int) -> jax.Array:
  """The sum of stacked messages, f32[size], the same bits on every device.

  One after the other, for the order in which a device adds equal indices of
  one scatter is nobody's promise.
  """

  def add(total, message):
    return total.at[message.indices].add(message.values, mode='drop'), None

  return lax.scan(add, jnp.zeros(size), messages)[0]


def _by_owner(message: Sparse, size: int):
  """The entries in the order of their owners, and how many each one gets."""
  n = lax.axis_size(WORKERS)
  owner = jnp.where(message.indices < size, message.indices % n, n)
  order = jnp.argsort(owner, stable=True)
  return (
    owner[order],
    jax.tree.map(lambda x: x[order], message),
    (jnp.bincount(owner, length=n)),
  )


def push(message: Sparse, size: int) -> tuple[jax.Array, jax.Array, Traffic]:
  """Sends every entry to its owner, 8 bytes each, who adds up what arrives.

  Returns:
    Of the entries this worker owns the sum, f32[share], and whether anyone
    sent them, bool[share]; the bill.
  """
  n, mine, k = lax.axis_size(WORKERS), share(size), message.indices.size
  owner, (values, indices), counts = _by_owner(message, size)
  place = jnp.arange(k) - (jnp.cumsum(counts) - counts)[owner.clip(max=n - 1)]

  def move(box):
    # An index of `mine` means no entry, as in any sparse message.
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
  """Every owner sends its masked entries to everyone.

  With their indices or with a bitmap of all it owns, whichever is less.

  Args:
    values: f32[share], what this worker owns.
    mask: bool[share], which of them travel.
    size: of the whole vector.
    k: entries in the messages that were pushed, to expect that many.

  Returns:
    The whole vector f32[size], zeros where nothing came; which entries came,
    bool[size]; the bill.
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
