"""Bills: bytes, messages and rounds of messages of known sizes."""

import jax.numpy as jnp
from jax import lax

from gossipjax.collectives.axes import axis
from gossipjax.traffic import Traffic

FLAG = 1  # Bytes of a bool.


def ring_bytes(size: int, n: int) -> int:
  """Bytes that each of n workers sends in a ring all-reduce of `size` bytes."""
  return -(-2 * (n - 1) * size // n)


def of_messages(out, into, size: int) -> Traffic:
  """Returns the bill of a worker that sends `out` messages of `size` bytes each
  and at the same time receives `into` such messages."""
  out, into = jnp.uint32(out), jnp.uint32(into)
  one = Traffic.of(size, 1)
  return Traffic(
    bytes=one.bytes * out,
    received=one.received * into,
    messages=one.messages * out,
    rounds=one.rounds * ((out + into) > 0),
    path_bytes=one.path_bytes * jnp.maximum(out, into),
  )


def of_tree(size: int) -> Traffic:
  """Returns the bill of a reduction of `size` bytes up and down a tree.

  It has few rounds. Each worker is billed the bytes of a ring, which are the
  mean over the tree's workers.
  """
  n = lax.axis_size(axis())
  rounds = 2 * (n - 1).bit_length()
  return Traffic.of(
    ring_bytes(size, n),
    2 if n > 1 else 0,
    rounds=rounds,
    path_bytes=rounds * size,
  )
