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

from gossipjax.errors import UserError
from gossipjax.flatten import flatten
from gossipjax.traffic import SILENCE, Traffic, nbytes

WORKERS = 'workers'  # The mesh axis.
SERVED = 'served'  # Marks, in the compiled program, a sum done by a server.
_FLAG = 1  # Bytes of a bool.


def _present(tree, active):
  """`tree` on the workers taking part, zeros on the others."""
  if active is True:
    return tree
  return jax.tree.map(lambda x: jnp.where(active, x, jnp.zeros_like(x)), tree)


def _sum(tree):
  """Over workers; in few pieces, since each is a collective of its own."""
  pieces, unpack = flatten(tree)
  return unpack(lax.psum(pieces, WORKERS))


def needs_everyone(active):
  """Refuses for algorithms that are not defined when workers are missing."""
  if active is not True:
    raise UserError('This aggregator needs every worker in every round.')


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
  bill = Traffic.of(
    size * sources,
    sources,
    received=size * targets,
    rounds=np.ones(n),
    path_bytes=np.full(n, size),
  )
  bill = jax.tree.map(lambda table: jnp.asarray(table)[me], bill)
  return _present(theirs, arrived), arrived, bill * active


def swap(tree, source, active=True):
  """Worker i reads from `source[i]`; who is missing looks like oneself."""
  pairs = [(s, i) for i, s in enumerate(source)]
  theirs, arrived, sent = send(tree, pairs, active)
  if active is True and all(s != i for s, i in pairs):
    return theirs, sent
  return jax.tree.map(lambda t, x: jnp.where(arrived, t, x), theirs, tree), sent


def all_reduce(tree, active=True):
  """The sum over workers, as a ring (Patarasuk & Yuan, 2009).

  Returns:
    The sum over those taking part, how many they are, and the bill.
  """
  n = lax.axis_size(WORKERS)
  if active is True:
    total, count, size = _sum(tree), n, nbytes(tree)
  else:
    flag = jnp.asarray(active, jnp.int32)
    total, count = _sum((_present(tree, active), flag))
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
    total = _sum(_present(tree, active))
    count = (
      n
      if active is True
      else jnp.maximum(lax.psum(jnp.asarray(active, jnp.int32), WORKERS), 1)
    )
  bill = Traffic.of(size, 1, rounds=2, path_bytes=0)
  queue = Traffic.of(0, 0, path_bytes=2 * size) * count
  return total, count, (bill + queue) * active


def all_max(x, active=True):
  """The largest x of all workers, and the bill; for few numbers, as `agree`."""
  needs_everyone(active)
  n = lax.axis_size(WORKERS)
  size, rounds = nbytes(x), 2 * (n - 1).bit_length()
  bill = Traffic.of(
    ring_bytes(size, n),
    2 if n > 1 else 0,
    rounds=rounds,
    path_bytes=rounds * size,
  )
  return lax.pmax(x, WORKERS), bill


def all_to_all(tree, active=True):
  """Row j of every leaf goes to worker j, one message to each other worker.

  Args:
    tree: leaves with a leading axis of n.
    active: only a literal True; who is missing would leave a hole.

  Returns:
    The tree whose row i came from worker i, and the bill.
  """
  needs_everyone(active)
  n, me = lax.axis_size(WORKERS), lax.axis_index(WORKERS)
  # Of an operand that is the same on all workers, vmap would get it wrong.
  mine = jax.tree.map(lambda x: jnp.where(me < 0, jnp.zeros_like(x), x), tree)
  theirs = lax.all_to_all(mine, WORKERS, 0, 0, tiled=True)
  return theirs, Traffic.of((n - 1) * nbytes(tree) // n, n - 1)


def read(tree, source, active=True):
  """Worker i reads the tree of `source[i]`, who need not take part.

  One-sided: any number may read one worker, whose link serves them one after
  the other and is charged even where it is absent itself.

  Args:
    tree: what this worker offers to others.
    source: static, int per worker; nobody reads from oneself.
    active: whether this worker reads; a request says so.

  Returns:
    The tree read (zeros if none was), i32[] how many were, and the bill.
  """
  waves = _waves((s, i) for i, s in enumerate(source) if s != i)
  total, into, out = _nothing(tree)
  for wave in waves:
    is_source, is_target = _ends(wave)
    asked = is_source & _hear(active, [(t, s) for s, t in wave])
    theirs = _carry(tree, wave, is_target & active)
    total = jax.tree.map(jnp.add, total, theirs)
    into, out = into + (is_target & active), out + asked
  bill = _bill(out, into, nbytes(tree))
  if active is not True:
    bill += _bill(into, out, _FLAG)
  return total, into, bill


def push(tree, target, active=True):
  """Worker i hands its tree to `target[i]`, who need not take part.

  One-sided, as `read`: the link of an absent target is charged for arrivals.

  Returns:
    The sum of the trees that arrived, i32[] how many did, and the bill.
  """
  waves = _waves((i, t) for i, t in enumerate(target) if t != i)
  total, into, out = _nothing(tree)
  for wave in waves:
    is_source, is_target = _ends(wave)
    arrived = is_target & _hear(active, wave)
    total = jax.tree.map(jnp.add, total, _carry(tree, wave, arrived))
    into, out = into + arrived, out + (is_source & active)
  size = nbytes(tree) + (0 if active is True else _FLAG)
  return total, into, _bill(out, into, size)


def meet(tree, source, wants=True, active=True):
  """Worker i takes the tree of `source[i]` if either wants to and both can.

  Both ends learn of it by a flag each way; where nobody wants, nothing is
  charged, since there silence is the message.

  Args:
    tree: what this worker hands over.
    source: static, int per worker; no worker is read by two others.
    wants: bool[], whether this worker starts an exchange.
    active: whether it takes part in one.

  Returns:
    The tree taken (zeros if none was), whether one was, whether one's own was
    handed over, and the bill.
  """
  pairs = [(s, i) for i, s in enumerate(source) if s != i]
  back = [(t, s) for s, t in pairs]
  if not pairs:
    nobody = jnp.bool_(False)
    return jax.tree.map(jnp.zeros_like, tree), nobody, nobody, SILENCE
  gives, takes = _ends(pairs)
  size = nbytes(tree)
  if wants is True and active is True:
    return _carry(tree, pairs, takes), takes, gives, _bill(gives, takes, size)
  mine = jnp.uint8(active) * (1 + jnp.uint8(wants))  # Absent, there, wanting.
  giver = _hear(mine, pairs)
  mutual = set(back) == set(pairs)  # Then one flag each way is all.
  taker = giver if mutual else _hear(mine, back)
  takes, gives = takes & (mine * giver >= 2), gives & (mine * taker >= 2)
  bill = _bill(gives, takes, size + _FLAG)
  if not mutual:
    bill += _bill(takes, gives, _FLAG)
  return _carry(tree, pairs, takes), takes, gives, bill


def agree(flags, active=True):
  """Whether anyone taking part raises each of `flags`: the same everywhere.

  A message this small goes up and down a tree: a ring's bytes, few rounds.
  """
  n, flags = lax.axis_size(WORKERS), jnp.uint8(flags)
  size, rounds = nbytes(flags), 2 * (n - 1).bit_length()
  anyone = lax.pmax(_present(flags, active), WORKERS) > 0
  bill = Traffic.of(
    ring_bytes(size, n),
    2 if n > 1 else 0,
    rounds=rounds,
    path_bytes=rounds * size,
  )
  return anyone, bill * active


def _waves(pairs):
  """Splits pairs that repeat a worker into the fewest partial permutations."""
  waves = []
  for source, target in pairs:
    for wave in waves:
      if all(s != source and t != target for s, t in wave):
        wave.append((source, target))
        break
    else:
      waves.append([(source, target)])
  return waves


def _nothing(tree):
  """A sum of no trees, and two counts of none."""
  return jax.tree.map(jnp.zeros_like, tree), jnp.int32(0), jnp.int32(0)


def _ends(pairs):
  """Whether this worker is a source, and whether it is a target."""
  n, me = lax.axis_size(WORKERS), lax.axis_index(WORKERS)
  sources, targets = np.zeros((2, n), bool)
  sources[[s for s, _ in pairs]] = True
  targets[[t for _, t in pairs]] = True
  return jnp.asarray(sources)[me], jnp.asarray(targets)[me]


def _hear(flag, pairs):
  """A source's flag, at its target; no message if it is a promise."""
  if flag is True:
    return True
  wires = _permutation(pairs, lax.axis_size(WORKERS))
  return lax.ppermute(flag, WORKERS, wires)


def _carry(tree, pairs, takes):
  """A source's tree, at its target; zeros where it `takes` none."""
  wires = _permutation(pairs, lax.axis_size(WORKERS))
  return _present(lax.ppermute(tree, WORKERS, wires), takes)


def _bill(out, into, size: int) -> Traffic:
  """For messages of `size` bytes, `out` sent while `into` are received."""
  out, into = jnp.uint32(out), jnp.uint32(into)
  one = Traffic.of(size, 1)
  return Traffic(
    bytes=one.bytes * out,
    received=one.received * into,
    messages=one.messages * out,
    rounds=one.rounds * ((out + into) > 0),
    path_bytes=one.path_bytes * jnp.maximum(out, into),
  )
