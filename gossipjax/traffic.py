"""Traffic: bytes, messages and rounds of one worker, in exact integers."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_BITS, _BASE = 20, 2**20


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Count:
  """An exact integer up to 4.5e15, for programs that have only 32 bits.

  It has two digits in base 2^20, so that a digit times fewer than 4,096 workers
  fits in 32 bits. On the host it converts to int64: `int(count)`,
  `np.asarray(counts)`, `counts[i]`.

  Attributes:
    low: u32[...], units, below 2^20.
    high: u32[...], multiples of 2^20.
  """

  low: jax.Array | np.ndarray | np.uint32
  high: jax.Array | np.ndarray | np.uint32

  @classmethod
  def of(cls, value) -> 'Count':
    """Converts non-negative Python integers or NumPy arrays of them."""
    array = np.asarray(value)
    if array.size and not 0 <= array.min() <= array.max() < _BASE * 2**32:
      raise ValueError(f'A count is within [0, 4.5e15], not {array}.')
    value = array.astype(np.int64)
    if (value != array).any():
      raise ValueError(f'A count is an integer, not {array}.')
    return cls(np.uint32(value % _BASE), np.uint32(value // _BASE))

  def __add__(self, other: 'Count') -> 'Count':
    return _carry(self.low + other.low, self.high + other.high)

  def __mul__(self, factor) -> 'Count':
    """Multiplies by a flag or by a number of workers below 4,096."""
    factor = jnp.asarray(factor, jnp.uint32)
    return _carry(self.low * factor, self.high * factor)

  def at(self, index) -> 'Count':
    """The entry at a traced index."""
    return jax.tree.map(lambda digit: jnp.asarray(digit)[index], self)

  def __array__(self, dtype=None, copy=None) -> np.ndarray:
    del copy
    low, high = np.asarray(self.low), np.asarray(self.high)
    value = np.int64(high) * _BASE + np.int64(low)
    return np.asarray(value, dtype or np.int64)

  def __int__(self) -> int:
    return int(np.asarray(self))

  def __getitem__(self, index):
    return np.asarray(self)[index]

  def summed(self, axis: int) -> 'Count':
    """The sum along an axis of fewer than 4,096 counts."""
    return _carry(self.low.sum(axis, np.uint32), self.high.sum(axis, np.uint32))

  def largest(self, axis: int) -> 'Count':
    """The largest count along an axis."""
    high = self.high.max(axis, keepdims=True)
    low = (self.low * (self.high == high)).max(axis)
    return Count(low, high.squeeze(axis))

  def sum(self, axis=None):
    """Sum on the host, int64."""
    return np.asarray(self).sum(axis=axis)

  def max(self, axis=None):
    """Maximum on the host, int64."""
    return np.asarray(self).max(axis=axis)


def _carry(low, high) -> Count:
  return Count(low & np.uint32(_BASE - 1), high + (low >> np.uint32(_BITS)))


_ZERO = Count(np.uint32(0), np.uint32(0))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Traffic:
  """Communication of one worker in one step.

  The first three fields are the ledger: what the worker's own link carried. The
  next two are for a link model, in which a link can be idle while others are
  busy. If a worker has several devices, each of them has a Traffic, and
  `at_once` combines these.

  Attributes:
    bytes: payload that this worker sent.
    received: payload that this worker received.
    messages: messages that this worker sent.
    rounds: sequential communication rounds that this worker waited for; each
      costs the latency once.
    path_bytes: bytes on the busiest link of each of these rounds, added up.
    local, local_rounds, local_path_bytes: the part of bytes, rounds and
      path_bytes within the worker's group, whose link may be faster.
    inner, inner_rounds: bytes that the devices of this worker sent each other,
      which `bytes` does not include, and the rounds of these exchanges.
  """

  bytes: Count
  received: Count
  messages: Count
  rounds: Count
  path_bytes: Count
  local: Count = _ZERO
  local_rounds: Count = _ZERO
  local_path_bytes: Count = _ZERO
  inner: Count = _ZERO
  inner_rounds: Count = _ZERO

  @classmethod
  def of(
    cls, num_bytes, messages, received=None, rounds=None, path_bytes=None
  ) -> 'Traffic':
    """Converts non-negative integers, or NumPy arrays of them.

    The defaults are those of a ring: a worker receives as much as it sends, and
    each message is a round.
    """
    or_default = lambda count, default: default if count is None else count
    counts = [num_bytes, or_default(received, num_bytes), messages]
    counts += [or_default(rounds, messages), or_default(path_bytes, num_bytes)]
    zeros = [np.zeros(np.shape(num_bytes))] * (len(_FIELDS) - len(counts))
    return cls(*map(Count.of, counts + zeros))

  @classmethod
  def inside(cls, num_bytes: int, rounds: int) -> 'Traffic':
    """The traffic of a device that sends to others of its worker."""
    counts = Count.of(num_bytes), Count.of(rounds)
    return dataclasses.replace(SILENCE, inner=counts[0], inner_rounds=counts[1])

  def __add__(self, other: 'Traffic') -> 'Traffic':
    pairs = zip(self.counts(), other.counts(), strict=True)
    return Traffic(*(mine + theirs for mine, theirs in pairs))

  def __mul__(self, present) -> 'Traffic':
    """Multiplies by a flag: an absent worker has no traffic."""
    if present is True:
      return self
    return Traffic(*(count * present for count in self.counts()))

  def counts(self) -> list[Count]:
    """All counts, in the order of the fields."""
    return [getattr(self, name) for name in _FIELDS]


_FIELDS = tuple(f.name for f in dataclasses.fields(Traffic))
SILENCE = Traffic.of(0, 0)
_FORM = jax.tree.structure(SILENCE)
_WAITED = ('rounds', 'local_rounds', 'inner_rounds')  # at_once: the maximum.


def at_once(sent: Traffic, axis: int = 0) -> Traffic:
  """Combines exchanges that use one link at the same time, such as those of the
  devices of a worker: bytes add up, and rounds are the most of any exchange.

  Args:
    sent: with an axis of fewer than 4,096 exchanges.
    axis: the axis of the exchanges, 0 or above.
  """
  join = lambda name: Count.largest if name in _WAITED else Count.summed
  return Traffic(*(join(f)(getattr(sent, f), axis) for f in _FIELDS))


def pack_traffic(sent: Traffic) -> jax.Array:
  """Packs all digits of the counts into one array, u32[20].

  A small program with twelve outputs instead of one takes a third more time,
  since each step allocates each output on each device.
  """
  return jnp.stack(jax.tree.leaves(sent))


def unpack_traffic(array: jax.Array | np.ndarray, of: int = 1) -> Traffic:
  """Unpacks u32[..., 20] into a Traffic on the host, leaves i64[...].

  If `of` > 1, axis 1 has that many devices of a worker; `at_once` joins them.
  """
  traffic = jax.tree.unflatten(_FORM, np.moveaxis(np.asarray(array), -1, 0))
  traffic = traffic if of == 1 else at_once(traffic, 1)
  return Traffic(*map(np.asarray, traffic.counts()))  # type: ignore[arg-type]


def nbytes(message: Any) -> int:
  """Bytes of a pytree of arrays, known at trace time."""
  return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(message))
