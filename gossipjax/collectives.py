"""The only file where bytes move, hence the only file that counts them.

Each function returns what this worker learns and what it sent. `active` marks
the workers taking part; a missing worker adds nothing and is charged nothing.
A literal `True` promises that everyone is there; otherwise a flag travels with
every message to say so, and is charged like the rest.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax.refusal import Refusal
from gossipjax.traffic import SILENCE, Traffic, nbytes

WORKERS = 'workers'  # The mesh axis.
SERVED = 'served'  # Marks, in the compiled program, a sum done by a server.
_FLAG = 1  # Bytes of a bool.


def _present(tree, active):
  """`tree` on the workers taking part, zeros on the others."""
  if active is True:
    return tree
  return jax.tree.map(lambda x: jnp.where(active, x, jnp.zeros_like(x)), tree)


def needs_everyone(active):
  """Refuses for algorithms that are not defined when workers are missing."""
  if active is not True:
    raise Refusal('This aggregator needs every worker in every round.')


def ring_bytes(size: int, n: int) -> int:
  """What each of n workers sends in a ring all-reduce of `size` bytes."""
  return -(-2 * (n - 1) * size // n)


def _permutation(pairs, n: int):
  """`pairs`, made up to a full permutation where vmap insists on one.

  The surplus moves on one device, to where nobody looks.
  """
  if WORKERS in jax.sharding.get_abstract_mesh().manual_axes:
    return pairs
  idle_sources = sorted(set(range(n)) - {s for s, _ in pairs})
  idle_targets = sorted(set(range(n)) - {t for _, t in pairs})
  return [*pairs, *zip(idle_sources, idle_targets, strict=True)]


def send(tree, pairs, active=True):
  """Moves trees along `(source, target)` pairs of workers.

  Args:
    tree: what this worker sends if it is a source.
    pairs: static; no worker is twice a source or twice a target.
    active: a tree moves if source and target are both there.

  Returns:
    The tree that arrived (zeros if none did), whether one did, and the bill.
  """
  n, me = lax.axis_size(WORKERS), lax.axis_index(WORKERS)
  pairs = [(s, t) for s, t in pairs if s != t]
  if not pairs:
    return jax.tree.map(jnp.zeros_like, tree), jnp.bool_(False), SILENCE
  sources, targets = np.zeros((2, n), bool)
  sources[[s for s, _ in pairs]] = True
  targets[[t for _, t in pairs]] = True

  wires = _permutation(pairs, n)
  theirs = lax.ppermute(tree, WORKERS, wires)
  arrived = jnp.asarray(targets)[me]
  size = nbytes(tree)
  if active is not True:
    arrived &= active & lax.ppermute(active, WORKERS, wires)
    size += _FLAG
  bill = Traffic.of(size * sources, sources, received=size * targets,
                    rounds=np.ones(n), path_bytes=np.full(n, size))
  bill = jax.tree.map(lambda table: jnp.asarray(table)[me], bill)
  return _present(theirs, arrived), arrived, bill * active


def swap(tree, source, active=True):
  """Worker i reads from `source[i]`; who is missing looks like oneself."""
  pairs = [(s, i) for i, s in enumerate(source)]
  theirs, arrived, sent = send(tree, pairs, active)
  if active is True and all(s != i for s, i in pairs):
    return theirs, sent
  return jax.tree.map(
      lambda t, x: jnp.where(arrived, t, x), theirs, tree), sent


def all_reduce(tree, active=True):
  """The sum over workers, as a ring (Patarasuk & Yuan, 2009).

  Returns:
    The sum over those taking part, how many they are, and the bill.
  """
  n = lax.axis_size(WORKERS)
  if active is True:
    total, count, size = lax.psum(tree, WORKERS), n, nbytes(tree)
  else:
    flag = jnp.asarray(active, jnp.int32)
    total, count = lax.psum((_present(tree, active), flag), WORKERS)
    count, size = jnp.maximum(count, 1), nbytes((tree, flag))
  return total, count, Traffic.of(ring_bytes(size, n), 2 * (n - 1)) * active


def all_gather(tree, active=True):
  """Everyone's tree along a new leading axis of size n, as a ring.

  Returns:
    The trees (zeros from the missing), how many are there, and the bill.
  """
  n = lax.axis_size(WORKERS)
  if active is True:
    trees, count, size = lax.all_gather(tree, WORKERS), n, nbytes(tree)
  else:
    trees, there = lax.all_gather((_present(tree, active), active), WORKERS)
    count, size = jnp.maximum(there.sum(), 1), nbytes(tree) + _FLAG
  return trees, count, Traffic.of((n - 1) * size, n - 1) * active


def serve(tree, active=True):
  """The sum over workers at a server: one upload and one download each.

  Emulated by a psum. All uploads, then all downloads, share the server's link.

  Returns:
    The sum over those taking part, how many they are, and the bill.
  """
  n, size = lax.axis_size(WORKERS), nbytes(tree)
  with jax.named_scope(SERVED):
    total = lax.psum(_present(tree, active), WORKERS)
    count = n if active is True else jnp.maximum(
        lax.psum(jnp.asarray(active, jnp.int32), WORKERS), 1)
  bill = Traffic.of(size, 1, rounds=2, path_bytes=0)
  queue = Traffic.of(0, 0, path_bytes=2 * size) * count
  return total, count, (bill + queue) * active
