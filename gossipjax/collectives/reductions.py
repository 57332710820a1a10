"""Sums, maxima and gathers over all workers."""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.collectives.axes import axis, is_sharded
from gossipjax.collectives.bills import FLAG, of_tree, ring_bytes
from gossipjax.collectives.sharing import joined, part_bytes, share, with_joins
from gossipjax.errors import UserError
from gossipjax.flatten import flatten
from gossipjax.traffic import SILENCE, Traffic, nbytes

# Scopes in the compiled program: the sum that a server computes, and within it
# the count of present workers, which a server knows without a message.
SERVED, PRESENT = 'served', 'present'


def needs_everyone(active):
  """Refuses absent workers, for algorithms that need all of them.

  Raises:
    UserError: `active` is not a literal True.
  """
  if active is not True:
    raise UserError(
      'This aggregator needs every worker in every round; gossip, all_reduce '
      'and elastic do not.'
    )


@with_joins
def all_reduce(tree, active=True):
  """The sum over workers, as a ring (Patarasuk & Yuan, 2009).

  Args:
    tree: arrays of this worker; bools are counted, as i32.
    active: bool[], whether it takes part; True: all do, and no flag is sent.

  Returns:
    The sum over the workers taking part; their number, int or i32[], at least
    1; the Traffic of this worker.
  """
  n, tree = lax.axis_size(axis()), _countable(tree)
  if active is True and not jax.tree.leaves(tree):
    return tree, n, SILENCE
  if active is True:
    total, count, size = _sum(tree), n, part_bytes(tree)
  else:
    flag = jnp.asarray(active, jnp.int32)
    total, count = _sum((where_present(tree, active), flag))
    count, size = jnp.maximum(count, 1), part_bytes((tree, flag))
  return total, count, Traffic.of(ring_bytes(size, n), 2 * (n - 1)) * active


@with_joins
def all_gather(tree, active=True):
  """Stacks all workers' trees on a new leading axis of size n, as a ring.

  Args:
    tree, active: as those of `all_reduce`.

  Returns:
    The trees, leaves [n, ...], zeros for absent workers; the rest as
    `all_reduce`.
  """
  n = lax.axis_size(axis())
  if active is True:
    trees, count, size = _gathered(tree), n, part_bytes(tree)
  else:
    trees, present = _gathered((where_present(tree, active), active))
    count, size = jnp.maximum(present.sum(), 1), part_bytes(tree) + FLAG
  return trees, count, Traffic.of((n - 1) * size, n - 1) * active


@with_joins
def serve(tree, active=True):
  """The sum over workers at a server: an upload and a download per worker.

  A psum emulates it. All uploads, then all downloads, share the server's link.

  Args:
    tree, active: as those of `all_reduce`.

  Returns:
    As `all_reduce`.
  """
  n, tree = lax.axis_size(axis()), _countable(tree)
  size = part_bytes(tree)
  with jax.named_scope(SERVED):
    total, count = _sum(where_present(tree, active)), n
    if active is not True:
      with jax.named_scope(PRESENT):
        present = lax.psum(jnp.asarray(active, jnp.int32), axis())
      count = jnp.maximum(present, 1)
  bill = Traffic.of(size, 1, rounds=2, path_bytes=0)
  queue = Traffic.of(0, 0, path_bytes=2 * size) * count
  return total, count, (bill + queue) * active


@with_joins
def all_to_all(tree, active=True):
  """Sends row j of every leaf to worker j, one message to each other worker.

  Args:
    tree: leaves with a leading axis of n.
    active: only a literal True.

  Returns:
    The tree whose row i came from worker i, and the bill.
  """
  needs_everyone(active)
  n, me = lax.axis_size(axis()), lax.axis_index(axis())
  # vmap gives wrong results for an operand that is the same on all workers.
  mine = jax.tree.map(lambda x: jnp.where(me < 0, jnp.zeros_like(x), x), tree)
  shares = jax.vmap(share)(mine)
  theirs = lax.all_to_all(shares, axis(), 0, 0, tiled=True)
  row = jax.tree.map(lambda x: x[0], tree)
  bill = Traffic.of((n - 1) * nbytes(shares) // n, n - 1)
  return joined(theirs, row, stacked=True), bill


@with_joins
def all_max(x, active=True):
  """The largest x of all workers, found along a tree; for few numbers.

  Args:
    x: an array, not a tree.
    active: only a literal True.

  Returns:
    The element-wise maximum, and the bill.
  """
  needs_everyone(active)
  return joined(lax.pmax(share(x), axis()), x), of_tree(part_bytes(x))


@with_joins
def all_sum(x, active=True):
  """The sum of x over all workers, for few numbers; as `all_max`."""
  needs_everyone(active)
  x = _countable(x)
  return joined(lax.psum(share(x), axis()), x), of_tree(part_bytes(x))


@with_joins
def agree(flags, active=True):
  """For each of `flags`, whether any worker that takes part raises it.

  Args:
    flags: bool[...].
    active: whether this worker takes part.

  Returns:
    bool[...], the logical or over workers, the same on all; and the bill.
  """
  flags = jnp.uint8(flags)
  raised = lax.pmax(share(where_present(flags, active)), axis())
  anyone = joined(raised, flags) > 0
  return anyone, of_tree(part_bytes(flags)) * active


def where_present(tree, active):
  """`tree` where `active` holds, zeros elsewhere."""
  if active is True:
    return tree
  return jax.tree.map(lambda x: jnp.where(active, x, jnp.zeros_like(x)), tree)


def _countable(tree):
  """Converts bools to i32, as psum does; adding bools would give a bool."""
  return jax.tree.map(
    lambda x: x.astype(jnp.int32) if x.dtype == bool else x, tree
  )


def _sum(tree):
  """The sum over workers, with few collectives.

  Under vmap a psum is a sum over the first axis, which takes XLA for CPUs up to
  70 times as long as adding the rows one after the other.
  """
  arrays, unflatten = flatten(share(tree))
  if is_sharded():
    total = lax.psum(arrays, axis())
  else:
    rows = lax.all_gather(arrays, axis())
    total = jax.tree.map(lambda x: functools.reduce(jnp.add, x), rows)
  return joined(unflatten(total), tree)


def _gathered(tree):
  return joined(lax.all_gather(share(tree), axis()), tree, stacked=True)
