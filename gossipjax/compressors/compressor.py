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
  """

  compress: Callable[..., Message]
  decompress: Callable[[Message, int], jax.Array]
  decompress_sum: Callable[[Message, int], jax.Array] | None = None

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
