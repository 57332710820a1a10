"""What a compressor is."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

Message = Any  # A pytree of compact arrays; its `nbytes` is what travels.


class Compressor(NamedTuple):
  """Maps f32[n] to a smaller message and back.

  Attributes:
    compress: `(f32[n], key=None) -> Message`; random codecs need the key.
    decompress: `(Message, n) -> f32[n]`; a message of zeros means zeros.
    decompress_mean: `(messages, n, count) -> f32[n]`, the sum of several
      messages on a leading axis, over a count; if None they are decompressed
      one after the other.
    subtract: `(f32[n], Message) -> f32[n]`, the vector without what the message
      says, in place where it is sparse; if None by the difference.
    start: `() -> memory` of one that goes by its earlier messages, else None.
    proceed: `(f32[n], key, step, memory) -> (message, memory)` of such a one.
  """

  compress: Callable[..., Message]
  decompress: Callable[[Message, int], jax.Array]
  decompress_mean: Callable[..., jax.Array] | None = None
  subtract: Callable[[jax.Array, Message], jax.Array] | None = None
  start: Callable[[], Any] | None = None
  proceed: Callable[..., tuple[Message, Any]] | None = None

  def begin(self) -> Any:
    """The memory to start with; `()` if there is none."""
    return () if self.start is None else self.start()

  def next(self, x: jax.Array, key, step, memory) -> tuple[Message, Any]:
    """The message of a step that all are at, and what to remember."""
    if self.proceed is None:
      return self.compress(x, key), memory
    return self.proceed(x, key, step, memory)

  def mean(self, messages: Message, size: int, count) -> jax.Array:
    """The sum of stacked messages over `count`, holding one at a time."""
    if self.decompress_mean is not None:
      return self.decompress_mean(messages, size, count)

    def add(total, message):
      return total + self.decompress(message, size), None

    return lax.scan(add, jnp.zeros(size), messages)[0] / count

  def withheld(self, x: jax.Array, message: Message) -> jax.Array:
    """What a message does not say of f32[n]."""
    if self.subtract is not None:
      return self.subtract(x, message)
    return x - self.decompress(message, x.size)


def none() -> Compressor:
  """Every entry as it is: 4 bytes."""
  return Compressor(lambda x, key=None: x, lambda message, size: message)
