"""Codecs for one weight of a network, cut into one share per server."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax.compressors import quantised, rows

Shape = tuple[int, ...]


class Layer(NamedTuple):
  """A codec for one tensor that travels to n servers.

  Attributes:
    shard: `f32[*shape] -> f32[n, ...]`, a share per server, padded with zeros.
    compress: from all shares to a message with a leading axis of n.
    decompress: from the message of one share to that share.
    again: `shape of a share -> Layer`, the codec of a server's answer.
  """

  shard: Callable
  compress: Callable
  decompress: Callable
  again: Callable[[Shape], 'Layer']

  def join(self, shares: jax.Array, shape: Shape) -> jax.Array:
    """Joins shares to the tensor."""
    # `shard` is linear; its transpose joins shares and cuts the padding off.
    like = jax.ShapeDtypeStruct(shape, shares.dtype)
    return jax.linear_transpose(self.shard, like)(shares)[0]


def _cut(x: jax.Array, n: int) -> jax.Array:
  pad = [(0, -len(x) % n)] + [(0, 0)] * (x.ndim - 1)
  return jnp.pad(x, pad).reshape(n, -1, *x.shape[1:])


def _of_rows(shard, shape: Shape, rate: float, together: bool) -> Layer:
  num_rows = jax.eval_shape(shard, jax.ShapeDtypeStruct(shape, 'f4')).shape[1]
  k = math.ceil(round(rate * num_rows, 9))
  unsharded = lambda share: share[None]
  return Layer(
    shard,
    lambda shares: rows.compress(shares, k, together),
    lambda message: rows.decompress(message, num_rows),
    lambda share: _of_rows(unsharded, share, rate, together),
  )


def filters(shape: Shape, n: int, rate: float) -> Layer:
  """Keeps the `rate * out` filters of f32[..., in, out] with the largest mean
  magnitude.

  Their number is rounded up. Each entry kept takes 4 bytes, and each server
  needs 1 bit per filter, as it has a part of every filter, f32[out, d].
  """
  shard = lambda x: _cut(x.reshape(-1, shape[-1]), n).swapaxes(1, 2)
  return _of_rows(shard, shape, rate, together=True)


def slices(shape: Shape, n: int, rate: float) -> Layer:
  """Keeps the kernels [...] of f32[..., in, out] of largest mean magnitude.

  Each entry kept takes 4 bytes, and each kernel 1 bit. A server has some of the
  kernels, f32[in * out / n, d], of which each worker sends the same number.
  """
  shard = lambda x: _cut(x.reshape(math.prod(shape[:-2]), -1).T, n)
  return _of_rows(shard, shape, rate, together=False)


LEVELS = {  # The value of a code, from |a| and the threshold t.
  'threshold': lambda a, t: t,
  'mean': lambda a, t: jnp.sum(a * (a >= t)) / jnp.maximum(1, jnp.sum(a >= t)),
}


def codes(shape: Shape, n: int, factor: float, level: str) -> Layer:
  """Encodes every entry in 2 bits, plus 4 bytes for each server.

  Args:
    shape: any.
    n: number of servers.
    factor: the threshold over the mean magnitude.
    level: a key of LEVELS.
  """
  size = math.prod(shape)

  def compress(shares):
    magnitude = jnp.abs(shares)
    threshold = factor * magnitude.sum() / size
    scale = LEVELS[level](magnitude, threshold)
    return quantised.Quantised(
      jax.vmap(lambda x: quantised.ternary(x, threshold))(shares),
      jnp.full(n, scale),
    )

  def decompress(message):
    return message.scale * quantised.signs(message.codes, -(-size // n))

  return Layer(
    lambda x: _cut(x.ravel(), n),
    compress,
    decompress,
    lambda share: codes(share, 1, factor, level),
  )
