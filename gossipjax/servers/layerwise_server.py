"""Tensors through sharded servers, each compressed in a way of its own."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import collectives
from gossipjax.collectives import WORKERS
from gossipjax.compressors.layers import Layer
from gossipjax.traffic import Traffic


def mean(
  tensors: Sequence[jax.Array], codecs: Sequence[Layer], squeezed: bool
) -> tuple[list[jax.Array], list[jax.Array], Traffic]:
  """The mean of compressed tensors.

  Args:
    tensors: f32, of this worker.
    codecs: one for each.
    squeezed: whether servers compress what they return as well.

  Returns:
    The means; what was withheld here, as worker and as server; the bill.
  """
  mine = [c.compress(c.shard(x)) for c, x in zip(codecs, tensors, strict=True)]
  theirs, pushed = collectives.all_to_all(mine)
  unpack = lambda messages: [
    jax.vmap(c.decompress)(m) for c, m in zip(codecs, messages, strict=True)
  ]
  join = lambda shares: [
    c.join(s, x.shape) for c, s, x in zip(codecs, shares, tensors, strict=True)
  ]
  # One after the other: along the first axis of a few long rows the CPU's
  # compiler adds up 30 times as slowly.
  served = [sum(shares) / len(shares) for shares in unpack(theirs)]
  withheld = [
    x - held for x, held in zip(tensors, join(unpack(mine)), strict=True)
  ]
  if not squeezed:
    shares, _, pulled = collectives.all_gather(served)
    return join(shares), withheld, pushed + pulled
  shares, pulled = _squeezed(served, codecs)
  # As in DoubleSqueeze: a server remembers in its own share, for all workers.
  n, me = lax.axis_size(WORKERS), lax.axis_index(WORKERS)
  kept = join(
    [
      jnp.zeros_like(all_).at[me].set(n * (one - all_[me]))
      for one, all_ in zip(served, shares, strict=True)
    ]
  )
  return (
    join(shares),
    [w + k for w, k in zip(withheld, kept, strict=True)],
    (pushed + pulled),
  )


def _squeezed(
  served: Sequence[jax.Array], codecs: Sequence[Layer]
) -> tuple[list[jax.Array], Traffic]:
  """Everyone's served share, compressed on the way: f32[n, *share] each."""
  again = [c.again(s.shape) for c, s in zip(codecs, served, strict=True)]
  messages, _, pulled = collectives.all_gather(
    [c.compress(c.shard(s)) for c, s in zip(again, served, strict=True)]
  )
  read = lambda c, message, share: c.join(
    jax.vmap(c.decompress)(message), share.shape
  )
  return [
    jax.vmap(lambda message: read(c, message, s))(m)
    for c, m, s in zip(again, messages, served, strict=True)
  ], pulled
