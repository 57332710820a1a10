"""Messages along pairs of workers: one-way, two-way, or if either asks."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax.collectives.axes import axis, is_sharded
from gossipjax.collectives.bills import FLAG, of_messages
from gossipjax.collectives.reductions import where_present
from gossipjax.collectives.sharing import joined, part_bytes, share, with_joins
from gossipjax.traffic import SILENCE, Traffic


@with_joins
def send(tree, pairs, active=True):
  """Moves trees along `(source, target)` pairs of workers.

  Args:
    tree: what this worker sends if it is a source.
    pairs: static; no worker is twice a source or twice a target.
    active: bool[] or True; an active source sends, and its tree arrives if the
      target is active, too.

  Returns:
    The tree that arrived, like `tree` (zeros if none did); bool[], whether one
    did; the Traffic of this worker, which counts a tree as received also if
      its source is absent.
  """
  n, me = lax.axis_size(axis()), lax.axis_index(axis())
  pairs = [(s, t) for s, t in pairs if s != t]
  if not pairs:
    return jax.tree.map(jnp.zeros_like, tree), jnp.bool_(False), SILENCE
  sources, targets = _ends(pairs, n)
  size, arrived = part_bytes(tree), jnp.asarray(targets)[me]
  if active is not True:
    arrived &= active & send_flag(active, pairs)
    size += FLAG
  bill = Traffic.of(
    size * sources,
    sources,
    received=size * targets,
    rounds=np.ones(n),
    path_bytes=np.full(n, size),
  )
  bill = jax.tree.map(lambda table: _entry(table, me), bill)
  return send_tree(tree, pairs, arrived), arrived, bill * active


def swap(tree, source, active=True):
  """Worker i reads the tree of `source[i]`, or its own if that is absent.

  Args:
    tree: what this worker sends.
    source: static, int per worker; no worker is read by two others.
    active: whether this worker takes part.

  Returns:
    The tree read, and the bill.
  """
  pairs = [(s, i) for i, s in enumerate(source)]
  theirs, arrived, sent = send(tree, pairs, active)
  if active is True and all(s != i for s, i in pairs):
    return theirs, sent
  return jax.tree.map(lambda t, x: jnp.where(arrived, t, x), theirs, tree), sent


@with_joins
def meet(tree, source, wants=True, active=True):
  """Worker i takes the tree of `source[i]` if one of them wants it and both are
  active.

  A flag each way informs both ends. If neither wants an exchange, nothing is
  charged: a missing message conveys as much as a flag would.

  Args:
    tree: what this worker gives.
    source: static, int per worker; no worker is read by two others.
    wants: bool[], whether this worker starts an exchange.
    active: bool[], whether it takes part in one.

  Returns:
    The tree taken (zeros if none was), bool[] whether one was taken, bool[]
    whether this worker's own was given, and the bill.
  """
  pairs = [(s, i) for i, s in enumerate(source) if s != i]
  reversed_pairs = [(t, s) for s, t in pairs]
  if not pairs:
    nobody = jnp.bool_(False)
    return jax.tree.map(jnp.zeros_like, tree), nobody, nobody, SILENCE
  gives, takes = is_end(pairs)
  size = part_bytes(tree)
  if wants is True and active is True:
    return (
      send_tree(tree, pairs, takes),
      takes,
      gives,
      of_messages(gives, takes, size),
    )
  # 0: absent, 1: active, 2: wants an exchange.
  mine = jnp.uint8(active) * (1 + jnp.uint8(wants))
  giver = send_flag(mine, pairs)
  mutual = set(reversed_pairs) == set(pairs)  # Then one flag each way suffices.
  taker = giver if mutual else send_flag(mine, reversed_pairs)
  takes, gives = takes & (mine * giver >= 2), gives & (mine * taker >= 2)
  bill = of_messages(gives, takes, size + FLAG)
  if not mutual:
    bill += of_messages(takes, gives, FLAG)
  return send_tree(tree, pairs, takes), takes, gives, bill


def is_end(pairs):
  """Whether this worker is a source, and whether it is a target: bool[]."""
  n, me = lax.axis_size(axis()), lax.axis_index(axis())
  return tuple(jnp.asarray(table)[me] for table in _ends(pairs, n))


def send_flag(flag, pairs):
  """Sends each source's flag to its target; a literal True takes no message."""
  if flag is True:
    return True
  permutation = _permutation(pairs, lax.axis_size(axis()))
  return joined(lax.ppermute(share(flag), axis(), permutation), flag)


def send_tree(tree, pairs, arrives):
  """Sends each source's tree to its target; zeros where it does not arrive."""
  permutation = _permutation(pairs, lax.axis_size(axis()))
  theirs = joined(lax.ppermute(share(tree), axis(), permutation), tree)
  return where_present(theirs, arrives)


def _permutation(pairs, n: int):
  """`pairs`, completed to a full permutation where vmap requires one.

  The additional messages stay on one device and are ignored.
  """
  if is_sharded():
    return pairs
  idle_sources = sorted(set(range(n)) - {s for s, _ in pairs})
  idle_targets = sorted(set(range(n)) - {t for _, t in pairs})
  return [*pairs, *zip(idle_sources, idle_targets, strict=True)]


def _entry(table, me):
  """A worker's entry of a static table; a constant if all entries are equal.

  Most counts of a bill are 0 for all workers. To trace their entries and sums
  would take most of the time in which a gossip of many rounds is traced.
  """
  equal = (table == table[0]).all()
  return table[0] if equal else jnp.asarray(table)[me]


def _ends(pairs, n: int):
  """Which workers are sources and which are targets: NumPy bool[n] each."""
  sources, targets = np.zeros((2, n), bool)
  sources[[s for s, _ in pairs]] = True
  targets[[t for _, t in pairs]] = True
  return sources, targets
