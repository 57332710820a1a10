"""The type Compressor, and the codec that keeps all entries."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.errors import UserError
from gossipjax.norms import wide

Message = Any  # A pytree of compact arrays; its `nbytes` is what travels.


class Compressor(NamedTuple):
  """A codec that maps f32[n] to a smaller message and back.

  Attributes:
    compress: `(f32[n], key=None) -> Message`; random codecs need the key.
    decompress: `(Message, n) -> f32[n]`; a message of zeros means zeros.
    decompress_mean: `(messages, n, count) -> f32[n]`, the sum of messages
      stacked on a leading axis, divided by count; None decompresses one after
      the other.
    subtract: `(f32[n], Message) -> f32[n]`, the vector minus the decompressed
      message, in place if that is sparse; None subtracts densely.
    start: `() -> memory` of a codec that depends on earlier steps, else None.
    proceed: `(f32[n], key, step, memory) -> (message, memory)` of such a codec.
    unbiased: whether the mean of its random messages is the vector.
    expands: whether its error can on average exceed the vector; error feedback
      then diverges.
  """

  compress: Callable[..., Message]
  decompress: Callable[[Message, int], jax.Array]
  decompress_mean: Callable[..., jax.Array] | None = None
  subtract: Callable[[jax.Array, Message], jax.Array] | None = None
  start: Callable[[], Any] | None = None
  proceed: Callable[..., tuple[Message, Any]] | None = None
  unbiased: bool = False
  expands: bool = False

  def begin(self) -> Any:
    """The first memory; `()` if there is none."""
    return () if self.start is None else self.start()

  def next(self, x: jax.Array, key, step, memory) -> tuple[Message, Any]:
    """The message of a step, the same on all workers, and the new memory."""
    if self.proceed is None:
      return self.compress(x, key), memory
    return self.proceed(x, key, step, memory)

  def mean(self, messages: Message, size: int, count) -> jax.Array:
    """The sum of stacked messages over `count`, decompressed one at a time."""
    if self.decompress_mean is not None:
      return self.decompress_mean(messages, size, count)

    def add(total, message):
      return total + self.decompress(message, size), None

    return lax.scan(add, _zeros(self, messages, size), messages)[0] / count

  def withheld(self, x: jax.Array, message: Message) -> jax.Array:
    """The error of a message: f32[n] minus the decompressed message."""
    if self.subtract is not None:
      return self.subtract(x, message)
    return x - self.decompress(message, x.size)


def _zeros(compressor: Compressor, messages: Message, size: int) -> jax.Array:
  """The sum of no messages, f32[size] or wider."""
  first = jax.tree.map(lambda x: x[0], messages)
  vector = jax.eval_shape(lambda m: compressor.decompress(m, size), first)
  return jnp.zeros(size, wide(vector.dtype))


def mean_over_senders(
  compressor: Compressor, messages: Message, size: int
) -> jax.Array:
  """The mean of each entry over those of the stacked messages that have it.

  A message does not have an entry that decodes to zero.
  """

  def add(sums, message):
    total, senders = sums
    x = compressor.decompress(message, size)
    return (total + x, senders + (x != 0)), None

  zeros = _zeros(compressor, messages, size), jnp.zeros(size, jnp.int32)
  (total, senders), _ = lax.scan(add, zeros, messages)
  return total / jnp.maximum(1, senders)


def needs_contraction(compressor: Compressor) -> None:
  """Refuses a codec whose error can exceed the vector.

  Raises:
    UserError: its error can exceed the vector; error feedback would diverge.
  """
  if compressor.expands:
    raise UserError(
      'This compressor diverges with error feedback, as its error can exceed '
      'what it encodes: random_k needs unbiased=False there, qsgd levels above '
      'sqrt(bucket), and terngrad always diverges. Strategy qsgd takes it, '
      'without error feedback.'
    )


_NONE = Compressor(
  lambda x, key=None: x, lambda message, size: message, unbiased=True
)


def none() -> Compressor:
  """Keeps every entry, in 4 bytes each; each call returns the same object."""
  return _NONE
