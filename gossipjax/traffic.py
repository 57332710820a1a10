"""What communication costs one worker, in exact integers."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_BASE = 2**20


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Count:
  """An integer up to 4.5e15, exact inside programs that know 32 bits only.

  Two digits to the base 2^20, so that a product with fewer than 4,096 workers
  fits a digit's 32 bits. On the host it reads as int64: `int(count)`,
  `np.asarray(counts)`, `counts[i]`.

  Attributes:
    low: u32[...], below 2^20.
    high: u32[...], multiples of 2^20.
  """

  low: jax.Array
  high: jax.Array

  @classmethod
  def of(cls, value) -> 'Count':
    """From non-negative Python integers or NumPy arrays of them."""
    given = np.asarray(value)
    if given.size and not 0 <= given.min() <= given.max() < _BASE * 2**32:
      raise ValueError(f'A count is within [0, 4.5e15], not {given}.')
    value = given.astype(np.int64)
    if (value != given).any():
      raise ValueError(f'A count is an integer, not {given}.')
    return cls(np.uint32(value % _BASE), np.uint32(value // _BASE))

  def __add__(self, other: 'Count') -> 'Count':
    return _carry(self.low + other.low, self.high + other.high)

  def __mul__(self, factor) -> 'Count':
    """Times a presence flag or a number of workers, below 4,096."""
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

  def sum(self, axis=None):
    """Sum on the host, int64."""
    return np.asarray(self).sum(axis=axis)

  def max(self, axis=None):
    """Maximum on the host, int64."""
    return np.asarray(self).max(axis=axis)


def _carry(low, high) -> Count:
  return Count(low % _BASE, high + low // _BASE)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Traffic:
  """Communication of one worker in one step.

  The first three are the ledger: what this worker's own link carried. The last
  two are what a link model needs, since links idle while others talk.

  Attributes:
    bytes: payload this worker put on the wire.
    received: payload this worker took off the wire.
    messages: messages this worker sent.
    rounds: communication rounds this worker sat through, one after the other;
      each pays the latency.
    path_bytes: bytes on the busiest link in each of those rounds, added up.
  """

  bytes: Count
  received: Count
  messages: Count
  rounds: Count
  path_bytes: Count

  @classmethod
  def of(
    cls, num_bytes, messages, received=None, rounds=None, path_bytes=None
  ) -> 'Traffic':
    """Of non-negative integers; what is not given is as in a ring.

    There everybody receives what it sends, and every message is a round.
    """
    either = lambda given, default: default if given is None else given
    return cls(
      *map(
        Count.of,
        (
          num_bytes,
          either(received, num_bytes),
          messages,
          either(rounds, messages),
          either(path_bytes, num_bytes),
        ),
      )
    )

  def __add__(self, other: 'Traffic') -> 'Traffic':
    pairs = zip(self._counts(), other._counts(), strict=True)
    return Traffic(*(mine + theirs for mine, theirs in pairs))

  def __mul__(self, present) -> 'Traffic':
    """Nothing for who is absent: times 0 or 1."""
    if present is True:
      return self
    return Traffic(*(count * present for count in self._counts()))

  def _counts(self):
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


SILENCE = Traffic.of(0, 0)
_FORM = jax.tree.structure(SILENCE)


def digits(sent: Traffic) -> jax.Array:
  """All digits in one array, u32[10]: ten outputs cost a small program a third
  more, since every step has to make them anew on every device."""
  return jnp.stack(jax.tree.leaves(sent))


def from_digits(array: jax.Array) -> Traffic:
  """The way back on the host, from u32[..., 10]; leaves i64[...]."""
  found = jax.tree.unflatten(_FORM, np.moveaxis(np.asarray(array), -1, 0))
  return Traffic(*map(np.asarray, found._counts()))


def nbytes(message: Any) -> int:
  """Size of a pytree of arrays in bytes; known at trace time."""
  return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(message))
