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
    decompress_sum: the same for a message with a leading axis of several, to
      their sum; if None they are decompressed one after the other.
    start: `() -> memory` of one that goes by its earlier messages, else None.
    proceed: `(f32[n], key, step, memory) -> (message, memory)` of such a one.
  """

  compress: Callable[..., Message]
  decompress: Callable[[Message, int], jax.Array]
  decompress_sum: Callable[[Message, int], jax.Array] | None = None
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

  def sum(self, messages: Message, size: int) -> jax.Array:
    """The sum of stacked messages, f32[n], holding one at a time."""
    if self.decompress_sum is not None:
      return self.decompress_sum(messages, size)

    def add(total, message):
      return total + self.decompress(message, size), None

    return lax.scan(add, jnp.zeros(size), messages)[0]


def none() -> Compressor:
  """Every entry as it is: 4 bytes."""
  return Compressor(lambda x, key=None: x, lambda message, size: message)
