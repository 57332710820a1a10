"""A parameter server for sparse messages, sharded over the workers.

P neighboring entries form a block; each worker owns one entry of each block.
Neighbors, which tend to be large together, then have different owners. A hash
of the block's number determines the owner of its first entry, so that entries a
fixed stride apart, such as those of a channel, have different owners too.
"""

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import collectives
from gossipjax.collectives import axis
from gossipjax.compressors import bitmap, packing
from gossipjax.compressors.sparse import Sparse
from gossipjax.norms import wide
from gossipjax.servers import boxes
from gossipjax.traffic import Traffic


def share(size: int) -> int:
  """Entries that each worker owns, one of each block, with padding."""
  return -(-size // lax.axis_size(axis()))


def _first(block: jax.Array) -> jax.Array:
  """The owner of each block's first entry: a hash, i32[...]."""
  bits = block.astype(jnp.uint32) * jnp.uint32(0x9E3779B1)
  bits = (bits ^ bits >> 15) * jnp.uint32(0x85EBCA77)
  bits = (bits ^ bits >> 13) % jnp.uint32(lax.axis_size(axis()))
  return bits.astype(jnp.int32)


def owner(index: jax.Array) -> jax.Array:
  """The worker that owns each entry, i32[...]."""
  n = lax.axis_size(axis())
  return (index + _first(index // n)) % n


def by_owner(size: int) -> jax.Array:
  """The rank of each entry if all are ordered by owner, i32[size].

  The entries of an incomplete last block come last.
  """
  n, index = lax.axis_size(axis()), jnp.arange(size, dtype=jnp.int32)
  blocks = size // n
  rank = owner(index) * blocks + index // n
  return jnp.where(index < blocks * n, rank, index)


def add_up(messages: Sparse, size: int) -> jax.Array:
  """The sum of stacked messages, f32[size], bit-identical on all devices.

  Messages are added one after the other: the order in which one scatter adds
  equal indices is not specified.
  """

  def add(total, message):
    return total.at[message.indices].add(message.values, mode='drop'), None

  nothing = jnp.zeros(size, wide(messages.values.dtype))
  return lax.scan(add, nothing, messages)[0]


def _blocks(octets: jax.Array, share: int) -> jax.Array:
  """Decodes block numbers, sent as number + 1; 0, no entry, gives `share`."""
  number = packing.from_octets(octets)
  return jnp.where(number > 0, number - 1, share)


def push(message: Sparse, size: int) -> tuple[jax.Array, jax.Array, Traffic]:
  """Sends every entry to its owner, which adds up what arrives.

  An entry takes 4 bytes for its value, and the fewest that hold the number of
  its block.

  Args:
    message: entries of a vector.
    size: of that vector.

  Returns:
    The sums of the entries that this worker owns, f32[share]; which of them
    any worker sent, bool[share]; the bill.
  """
  n, mine, k = lax.axis_size(axis()), share(size), message.indices.size
  to = jnp.where(message.indices < size, owner(message.indices), n)
  order, counts = jnp.argsort(to, stable=True), jnp.bincount(to, length=n)
  to, block = to[order], message.indices[order] // n
  place = jnp.arange(k) - (jnp.cumsum(counts) - counts)[to.clip(max=n - 1)]

  def move(need, box):
    row, zeros = (to, place), jnp.zeros((n, box), message.values.dtype)
    numbers = jnp.zeros((n, box), jnp.int32).at[row].set(block + 1, mode='drop')
    (values, octets), _, sent = boxes.trimmed(
      need,
      box,
      collectives.all_to_all,
      (
        zeros.at[row].set(message.values[order], mode='drop'),
        packing.octets(numbers, mine),
      ),
    )
    theirs = Sparse(values, _blocks(octets, mine))
    touched = (
      jnp.zeros(mine, bool).at[theirs.indices.ravel()].set(True, mode='drop')
    )
    return add_up(theirs, mine), touched, sent

  return boxes.boxed(counts.max(), -(-k // n), min(k, mine), move)


def pull(
  values: jax.Array, mask: jax.Array, size: int, k: int
) -> tuple[jax.Array, jax.Array, Traffic]:
  """Every owner sends its masked entries to all workers.

  They travel with the numbers of their blocks or with a bitmap of all entries
  of the owner, whichever is smaller.

  Args:
    values: f32[share], of the entries that this worker owns.
    mask: bool[share], which of them it sends.
    size: of the whole vector.
    k: entries of a pushed message, which determines the smallest box.

  Returns:
    The whole vector, f32[size], with zeros where no entry arrived; which
    entries arrived, bool[size]; the bill.
  """
  n, mine, bits = lax.axis_size(axis()), values.size, bitmap.words(mask)
  gather = lambda tree: collectives.all_gather(tree)[::2]

  def move(need, box):
    block = bitmap.indices(bits, box, mine)
    chosen = values.at[block].get(mode='fill', fill_value=0)
    octets = packing.octets(jnp.where(block < mine, block + 1, 0), mine)
    if bits.nbytes < 3 / 4 * octets.nbytes:  # Of a box, 5 to 8 eighths travel.
      chosen, words, sent = boxes.trimmed(need, box, gather, chosen, bits)
      block = jax.vmap(lambda bits: bitmap.indices(bits, box, mine))(words)
    else:
      (chosen, octets), _, sent = boxes.trimmed(
        need, box, gather, (chosen, octets)
      )
      block = _blocks(octets, mine)
    place = (jnp.arange(n)[:, None] - _first(block)) % n
    index = jnp.where(block < mine, block * n + place, size)
    full = jnp.zeros(size, values.dtype).at[index].set(chosen, mode='drop')
    present = jnp.zeros(size, bool).at[index].set(True, mode='drop')
    return full, present, sent

  return boxes.boxed(mask.sum(), -(-k // n), min(mine, k * n), move)
