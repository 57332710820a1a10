"""The only file in which bytes move, hence the only file that counts them.

Each function runs once per worker and returns what this worker receives and
its bill, a Traffic. `active`, bool[], marks the workers that take part; an
absent worker contributes nothing and is charged nothing. A literal `True`
states that all take part; otherwise each message carries a flag with that
information, which is charged like the rest.

A worker may be several devices. Where they hold the same, each sends its share
of every message to its twins in the other workers, and they join what arrives
among themselves: no byte goes to another worker twice, and every algorithm
computes what it would on one device. The share of a message is as long for each
device; it is padded where their number does not divide the entries. The bill is
that of the device.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax.errors import UserError
from gossipjax.flatten import flatten
from gossipjax.traffic import SILENCE, Traffic, nbytes

WORKERS = 'workers'  # The mesh axis, unless `over` says another.
INNER = 'inner'  # The axis of the devices of a worker, likewise.

Axis = str | tuple[str, ...]
_AXIS: contextvars.ContextVar[Axis] = contextvars.ContextVar(
  'axis', default=WORKERS
)
_INNER: contextvars.ContextVar[Axis | None] = contextvars.ContextVar(
  'inner', default=None
)


def axis() -> Axis:
  """The axis of the workers, for what is traced now."""
  return _AXIS.get()


@contextlib.contextmanager
def over(name: Axis, inner: Axis | None = None) -> Iterator[None]:
  """What is traced inside takes this axis, or these axes, for the workers.

  Args:
    name: of the workers' axis or axes.
    inner: of the devices of a worker that hold the same, which share its
      sending; None: each device speaks for itself.
  """
  before = _AXIS.set(name), _INNER.set(inner)
  try:
    yield
  finally:
    _AXIS.reset(before[0])
    _INNER.reset(before[1])


def along(
  name: Axis, program: Callable[..., Any], inner: Axis | None = None
) -> Any:
  """A program of one worker, along an axis of anyone's mesh; see `over`.

  Under `jax.shard_map` its results count as varying. Inside, JAX does not track
  what varies: branches and loops mix what does with what does not. The axes of
  a worker's devices are manual inside: left to the compiler, a selection would
  gather what a worker holds on each of them, and each would send all of it.
  """
  axes = _names(name)

  def run(*args):
    with over(name, inner):
      if not _is_sharded() or (_manual(inner) and not _is_tracked(name)):
        return program(*args)
      found = jax.shard_map(
        lambda *args: program(*jax.tree.map(_unmarked, args)),
        in_specs=jax.P(),
        out_specs=jax.P(),
        axis_names={*axes, *_names(inner or ())},
        check_vma=False,
      )(*args)
    return jax.tree.map(lambda x: _varying(x, axes), found)

  return run


def _manual(names: Axis | None) -> bool:
  """Whether each device runs the program of its own along these axes."""
  manual = jax.sharding.get_abstract_mesh().manual_axes
  return {*_names(names or ())} <= {*manual}


def _is_tracked(name: Axis) -> bool:
  """Whether JAX tracks what varies along the workers' axes."""
  return bool(jax.typeof(lax.axis_index(name)).mat.varying)


def _unmarked(x: jax.Array) -> jax.Array:
  """x through operations that lose the mark of what varies, and are free."""
  return lax.squeeze(lax.expand_dims(x, (0,)), (0,))


def _varying(x: jax.Array, axes: tuple[str, ...]) -> jax.Array:
  new = tuple(a for a in axes if a not in jax.typeof(x).mat.varying)
  return lax.pcast(x, new, to='varying') if new else x


def _names(name: Axis) -> tuple[str, ...]:
  return (name,) if isinstance(name, str) else tuple(name)


# What the devices of a worker send each other in the call that is traced now.
_JOINS: contextvars.ContextVar[list[Traffic]] = contextvars.ContextVar('joins')


def _with_joins(function: Callable[..., Any]) -> Callable[..., Any]:
  """Adds to a function's bill what the devices of a worker send each other.

  They join whatever arrives, whether or not something did.
  """

  @functools.wraps(function)
  def run(*args, **kwargs):
    joins = []
    before = _JOINS.set(joins)
    try:
      *found, bill = function(*args, **kwargs)
    finally:
      _JOINS.reset(before)
    return (*found, functools.reduce(lambda a, b: a + b, joins, bill))

  return run


def _share(tree):
  """The part of a message that this device sends."""
  if (inner := _INNER.get()) is None:
    return tree
  n, me = lax.axis_size(inner), lax.axis_index(inner)
  rows = lambda x: jnp.pad(x.reshape(-1), (0, -x.size % n)).reshape(n, -1)
  arrays, _ = flatten(jax.tree.map(jnp.asarray, tree))
  return jax.tree.map(lambda x: rows(x)[me], arrays)


def _joined(arrived, like, stacked: bool = False):
  """What all devices of the worker received.

  Args:
    arrived: this device's share.
    like: what a worker sent.
    stacked: whether shares of several workers arrived, on axis 0.
  """
  if (inner := _INNER.get()) is None:
    return arrived
  arrays, unflatten = flatten(jax.tree.map(jnp.asarray, like))
  others, lead = lax.axis_size(inner) - 1, int(stacked)
  _JOINS.get().append(Traffic.inside(others * nbytes(arrived), others))

  def whole(shares, array):
    flat = shares.reshape(*shares.shape[:lead], -1)[..., : array.size]
    return flat.reshape(*shares.shape[:lead], *array.shape)

  shares = lax.all_gather(arrived, inner, axis=lead)
  found = jax.tree.map(whole, shares, arrays)
  return jax.vmap(unflatten)(found) if stacked else unflatten(found)


def _size(tree) -> int:
  """Bytes of the part of a message that this device sends."""
  return nbytes(_share(tree))


SERVED = 'served'  # Name in the compiled program of a sum that a server does.
_FLAG = 1  # Bytes of a bool.


def _present(tree, active):
  """`tree` where `active` holds, zeros elsewhere."""
  if active is True:
    return tree
  return jax.tree.map(lambda x: jnp.where(active, x, jnp.zeros_like(x)), tree)


def _is_sharded() -> bool:
  """Whether the workers are on devices of their own, not a batch of vmap."""
  return _manual(axis())


def _sum(tree):
  """The sum over workers, with few collectives.

  Under vmap a psum is a sum over the first axis, which takes XLA for CPUs up to
  70 times as long as adding the rows one after the other.
  """
  arrays, unflatten = flatten(_share(tree))
  if _is_sharded():
    total = lax.psum(arrays, axis())
  else:
    rows = lax.all_gather(arrays, axis())
    total = jax.tree.map(lambda x: functools.reduce(jnp.add, x), rows)
  return _joined(unflatten(total), tree)


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


def ring_bytes(size: int, n: int) -> int:
  """Bytes that each of n workers sends in a ring all-reduce of `size` bytes."""
  return -(-2 * (n - 1) * size // n)


def _permutation(pairs, n: int):
  """`pairs`, completed to a full permutation where vmap requires one.

  The additional messages stay on one device and are ignored.
  """
  if _is_sharded():
    return pairs
  idle_sources = sorted(set(range(n)) - {s for s, _ in pairs})
  idle_targets = sorted(set(range(n)) - {t for _, t in pairs})
  return [*pairs, *zip(idle_sources, idle_targets, strict=True)]


@_with_joins
def send(tree, pairs, active=True):
  """Moves trees along `(source, target)` pairs of workers.

  Args:
    tree: what this worker sends if it is a source.
    pairs: static; no worker is twice a source or twice a target.
    active: a tree moves if source and target are both there.

  Returns:
    The tree that arrived (zeros if none did), whether one did, and the bill.
  """
  n, me = lax.axis_size(axis()), lax.axis_index(axis())
  pairs = [(s, t) for s, t in pairs if s != t]
  if not pairs:
    return jax.tree.map(jnp.zeros_like, tree), jnp.bool_(False), SILENCE
  sources, targets = _ends(pairs, n)
  size, arrived = _size(tree), jnp.asarray(targets)[me]
  if active is not True:
    arrived &= active & _send_flag(active, pairs)
    size += _FLAG
  bill = Traffic.of(
    size * sources,
    sources,
    received=size * targets,
    rounds=np.ones(n),
    path_bytes=np.full(n, size),
  )
  bill = jax.tree.map(lambda table: jnp.asarray(table)[me], bill)
  return _send(tree, pairs, arrived), arrived, bill * active


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


@_with_joins
def all_reduce(tree, active=True):
  """The sum over workers, as a ring (Patarasuk & Yuan, 2009).

  Returns:
    The sum over those taking part, how many they are, and the bill.
  """
  n = lax.axis_size(axis())
  if active is True:
    total, count, size = _sum(tree), n, _size(tree)
  else:
    flag = jnp.asarray(active, jnp.int32)
    total, count = _sum((_present(tree, active), flag))
    count, size = jnp.maximum(count, 1), _size((tree, flag))
  return total, count, Traffic.of(ring_bytes(size, n), 2 * (n - 1)) * active


@_with_joins
def all_gather(tree, active=True):
  """Stacks all workers' trees on a new leading axis of size n, as a ring.

  Returns:
    The trees (zeros for absent workers), how many take part, and the bill.
  """
  n = lax.axis_size(axis())
  if active is True:
    trees, count, size = _gathered(tree), n, _size(tree)
  else:
    trees, present = _gathered((_present(tree, active), active))
    count, size = jnp.maximum(present.sum(), 1), _size(tree) + _FLAG
  return trees, count, Traffic.of((n - 1) * size, n - 1) * active


def _gathered(tree):
  return _joined(lax.all_gather(_share(tree), axis()), tree, stacked=True)


@_with_joins
def serve(tree, active=True):
  """The sum over workers at a server: an upload and a download per worker.

  A psum emulates it. All uploads, then all downloads, share the server's link.

  Returns:
    The sum over those taking part, how many they are, and the bill.
  """
  n, size = lax.axis_size(axis()), _size(tree)
  with jax.named_scope(SERVED):
    total = _sum(_present(tree, active))
    count = (
      n
      if active is True
      else jnp.maximum(lax.psum(jnp.asarray(active, jnp.int32), axis()), 1)
    )
  bill = Traffic.of(size, 1, rounds=2, path_bytes=0)
  queue = Traffic.of(0, 0, path_bytes=2 * size) * count
  return total, count, (bill + queue) * active


@_with_joins
def all_max(x, active=True):
  """The largest x of all workers, for few numbers; as `agree`, over a tree.

  Args:
    x: an array, not a tree.
    active: only a literal True.

  Returns:
    The element-wise maximum, and the bill.
  """
  needs_everyone(active)
  return _joined(lax.pmax(_share(x), axis()), x), _tree_bill(x)


@_with_joins
def all_sum(x, active=True):
  """The sum of x over all workers, for few numbers; as `all_max`."""
  needs_everyone(active)
  return _joined(lax.psum(_share(x), axis()), x), _tree_bill(x)


@_with_joins
def all_to_all(tree, active=True):
  """Row j of every leaf goes to worker j, one message to each other worker.

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
  shares = jax.vmap(_share)(mine)
  theirs = lax.all_to_all(shares, axis(), 0, 0, tiled=True)
  row = jax.tree.map(lambda x: x[0], tree)
  bill = Traffic.of((n - 1) * nbytes(shares) // n, n - 1)
  return _joined(theirs, row, stacked=True), bill


@_with_joins
def read(tree, source, active=True):
  """Worker i reads the tree of `source[i]`, which need not take part.

  One-sided: several workers may read one, whose link serves them one after the
  other and is charged even if that worker is absent.

  Args:
    tree: what others read from this worker.
    source: static, int per worker; where `source[i]` is i nothing is read.
    active: whether this worker reads; if not a literal True, a request of one
      flag is charged.

  Returns:
    The tree read (zeros if none was), i32[] how many were, and the bill.
  """
  permutations = _permutations((s, i) for i, s in enumerate(source) if s != i)
  total, into, out = _nothing(tree)
  for pairs in permutations:
    is_source, is_target = _is_end(pairs)
    asked = is_source & _send_flag(active, [(t, s) for s, t in pairs])
    theirs = _send(tree, pairs, is_target & active)
    total = jax.tree.map(jnp.add, total, theirs)
    into, out = into + (is_target & active), out + asked
  bill = _bill(out, into, _size(tree))
  if active is not True:
    bill += _bill(into, out, _FLAG)
  return total, into, bill


@_with_joins
def push(tree, target, active=True):
  """Worker i sends its tree to `target[i]`, which need not take part.

  One-sided, as `read`: the link of an absent target is charged for arrivals.

  Args:
    tree: what this worker sends.
    target: static, int per worker; where `target[i]` is i nothing is sent.
    active: whether this worker sends.

  Returns:
    The sum of the trees that arrived, i32[] how many did, and the bill.
  """
  permutations = _permutations((i, t) for i, t in enumerate(target) if t != i)
  total, into, out = _nothing(tree)
  for pairs in permutations:
    is_source, is_target = _is_end(pairs)
    arrived = is_target & _send_flag(active, pairs)
    total = jax.tree.map(jnp.add, total, _send(tree, pairs, arrived))
    into, out = into + arrived, out + (is_source & active)
  size = _size(tree) + (0 if active is True else _FLAG)
  return total, into, _bill(out, into, size)


@_with_joins
def meet(tree, source, wants=True, active=True):
  """Worker i takes the tree of `source[i]` if one of them wants it and both are
  active.

  A flag each way informs both ends. Where neither wants an exchange nothing is
  charged: no message states the same.

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
  back = [(t, s) for s, t in pairs]
  if not pairs:
    nobody = jnp.bool_(False)
    return jax.tree.map(jnp.zeros_like, tree), nobody, nobody, SILENCE
  gives, takes = _is_end(pairs)
  size = _size(tree)
  if wants is True and active is True:
    return _send(tree, pairs, takes), takes, gives, _bill(gives, takes, size)
  # 0: absent, 1: active, 2: wants an exchange.
  mine = jnp.uint8(active) * (1 + jnp.uint8(wants))
  giver = _send_flag(mine, pairs)
  mutual = set(back) == set(pairs)  # Then one flag each way suffices.
  taker = giver if mutual else _send_flag(mine, back)
  takes, gives = takes & (mine * giver >= 2), gives & (mine * taker >= 2)
  bill = _bill(gives, takes, size + _FLAG)
  if not mutual:
    bill += _bill(takes, gives, _FLAG)
  return _send(tree, pairs, takes), takes, gives, bill


@_with_joins
def agree(flags, active=True):
  """Whether a worker taking part raises each of `flags`; the same on all.

  Args:
    flags: bool[...].
    active: whether this worker takes part.

  Returns:
    bool[...], the logical or over workers, and the bill.
  """
  flags = jnp.uint8(flags)
  raised = lax.pmax(_share(_present(flags, active)), axis())
  anyone = _joined(raised, flags) > 0
  return anyone, _tree_bill(flags) * active


def in_groups(name: str, params, x, groups):
  """A collective of each group of workers, in place of one of all workers.

  For programs that were traced for the workers of one group, so that their
  bills are those of a group; see transforms/groups.py.

  Args:
    name: of the primitive in such a program.
    params: of the primitive.
    x: its operand; None for axis_index.
    groups: static, int[groups, members]: the workers of each group.

  Returns:
    Its result; None if it is no collective.
  """
  if name not in ('axis_index', 'ppermute', *_NATIVE):
    return None
  of = params.get('axes') or params.get('axis_name') or axis()
  if _names(of) != _names(axis()):
    return None  # Of the devices of a worker.
  table, me = np.asarray(groups), lax.axis_index(axis())
  group, place = np.zeros((2, table.size), np.int32)
  for g, members in enumerate(table):
    group[members], place[members] = g, np.arange(len(members))
  if name == 'axis_index':
    return jnp.asarray(place)[me]
  if name == 'ppermute':
    pairs = [(g[s], g[t]) for g in table.tolist() for s, t in params['perm']]
    return lax.ppermute(x, axis(), pairs)
  if _is_sharded():
    # The program may have groups of its own, within one of these.
    parts = params.get('axis_index_groups') or [range(table.shape[1])]
    return _NATIVE[name](
      x, [[members[i] for i in part] for members in table for part in parts]
    )
  # vmap has no collectives of groups: everybody's x, then the group's.
  mine = lax.all_gather(x, axis())[table][jnp.asarray(group)[me]]
  return _OF_MEMBERS[name](mine, jnp.asarray(place)[me])


_NATIVE = {
  'psum': lambda x, groups: lax.psum(x, axis(), axis_index_groups=groups),
  'pmax': lambda x, groups: lax.pmax(x, axis(), axis_index_groups=groups),
  'all_gather': lambda x, groups: lax.all_gather(
    x, axis(), axis_index_groups=groups
  ),
  'all_to_all': lambda x, groups: lax.all_to_all(
    x, axis(), 0, 0, tiled=True, axis_index_groups=groups
  ),
}
_OF_MEMBERS = {
  'psum': lambda mine, place: mine.sum(axis=0).astype(mine.dtype),
  'pmax': lambda mine, place: mine.max(axis=0),
  'all_gather': lambda mine, place: mine,
  'all_to_all': lambda mine, place: mine[:, place],
}


def _tree_bill(x) -> Traffic:
  """For a reduction of few numbers up and down a tree: few rounds.

  The bytes of a worker are those of a ring, a mean over the tree's workers.
  """
  n, size = lax.axis_size(axis()), _size(x)
  rounds = 2 * (n - 1).bit_length()
  return Traffic.of(
    ring_bytes(size, n),
    2 if n > 1 else 0,
    rounds=rounds,
    path_bytes=rounds * size,
  )


def _permutations(pairs):
  """Splits pairs that repeat a worker into the fewest partial permutations."""
  found = []
  for source, target in pairs:
    for permutation in found:
      if all(s != source and t != target for s, t in permutation):
        permutation.append((source, target))
        break
    else:
      found.append([(source, target)])
  return found


def _nothing(tree):
  """An empty sum of trees, and two counts of zero."""
  return jax.tree.map(jnp.zeros_like, tree), jnp.int32(0), jnp.int32(0)


def _ends(pairs, n: int):
  """Which workers are sources and which are targets: NumPy bool[n] each."""
  sources, targets = np.zeros((2, n), bool)
  sources[[s for s, _ in pairs]] = True
  targets[[t for _, t in pairs]] = True
  return sources, targets


def _is_end(pairs):
  """Whether this worker is a source, and whether it is a target: bool[]."""
  n, me = lax.axis_size(axis()), lax.axis_index(axis())
  return tuple(jnp.asarray(table)[me] for table in _ends(pairs, n))


def _send_flag(flag, pairs):
  """The source's flag at its target; a literal True takes no message."""
  if flag is True:
    return True
  full = _permutation(pairs, lax.axis_size(axis()))
  return _joined(lax.ppermute(_share(flag), axis(), full), flag)


def _send(tree, pairs, arrives):
  """The source's tree at its target; zeros where it does not arrive."""
  full = _permutation(pairs, lax.axis_size(axis()))
  theirs = _joined(lax.ppermute(_share(tree), axis(), full), tree)
  return _present(theirs, arrives)


def _bill(out, into, size: int) -> Traffic:
  """For messages of `size` bytes each, of which this worker sends `out` and
  receives `into` at the same time."""
  out, into = jnp.uint32(out), jnp.uint32(into)
  one = Traffic.of(size, 1)
  return Traffic(
    bytes=one.bytes * out,
    received=one.received * into,
    messages=one.messages * out,
    rounds=one.rounds * ((out + into) > 0),
    path_bytes=one.path_bytes * jnp.maximum(out, into),
  )


def inner_mean(tree, name: Axis = INNER):
  """The mean over the devices of this worker, as a ring, and its bill."""
  n = lax.axis_size(name)
  bill = Traffic.inside(ring_bytes(nbytes(tree), n), 2 * (n - 1))
  arrays, unflatten = flatten(tree)
  return unflatten(lax.pmean(arrays, name)), bill


def inner_gather(tree, name: Axis = INNER):
  """The trees of all devices of this worker on a new axis 0, and the bill."""
  others = lax.axis_size(name) - 1
  bill = Traffic.inside(others * nbytes(tree), others)
  return lax.all_gather(tree, name), bill


def inner_scatter(tree, name: Axis = INNER):
  """The mean of row i, over the devices of this worker, at its i-th device.

  Args:
    tree: leaves with a leading axis of as many rows as devices.
    name: of their axis.

  Returns:
    The tree of this device's row, and the bill.
  """
  n = lax.axis_size(name)
  total = lax.psum_scatter(tree, name)
  bill = Traffic.inside((n - 1) * nbytes(total), n - 1)
  return jax.tree.map(lambda x: x / n, total), bill
