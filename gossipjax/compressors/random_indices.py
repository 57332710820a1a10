"""Few entries, drawn by lot: whoever has the seed knows which."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import largest
from gossipjax.compressors.compressor import Compressor
from gossipjax.compressors.sparse import count
from gossipjax.compressors.stochastic import needs_key


class Sampled(NamedTuple):
  values: jax.Array  # f32[k]
  seed: jax.Array  # u32[]; from which everyone draws the same k indices.


def draw(key: jax.Array, size: int, k: int) -> jax.Array:
  """k different ones of `size` indices, ascending.

  Those of the largest random numbers: of 2.56 M, a 30th of the time of
  `jax.random.choice`, which sorts them.
  """
  numbers = jax.random.bits(key, (size,)) >> 1  # Of a float, but for the sign.
  return largest.ascending(lax.bitcast_convert_type(numbers, jnp.float32), k)


def random_k(density: float = 0.01, unbiased: bool = False) -> Compressor:
  """Keeps `density * n` entries drawn without replacement.

  4 bytes an entry and 4 more: the indices are drawn again from a seed.

  Stich et al., Sparsified SGD with memory, 2018. arXiv:1809.07599

  Args:
    density: k / n.
    unbiased: scales by n / k, for use without an error feedback, which the
      scaled form makes diverge.
  """
  count(density, 10**9)  # An impossible density is refused before any math.

  again = lambda seed, size: draw(
    jax.random.key(seed), size, count(density, size)
  )

  def compress(x, key=None):
    needs_key(key)
    seed = jax.random.bits(key)
    values = x[again(seed, x.size)]
    return Sampled(values * x.size / values.size if unbiased else values, seed)

  def decompress(message, size):
    return jnp.zeros(size).at[again(message.seed, size)].set(message.values)

  return Compressor(compress, decompress)
