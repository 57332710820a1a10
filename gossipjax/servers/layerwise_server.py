"""The mean of tensors through sharded servers, with a codec for each tensor."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import collectives
from gossipjax.collectives import axis
from gossipjax.compressors.layers import Layer
from gossipjax.traffic import Traffic


def mean(
  tensors: Sequence[jax.Array],
  codecs: Sequence[Layer],
  dtypes: Sequence[jnp.dtype],
  compress_pull: bool,
) -> tuple[list[jax.Array], list[jax.Array], Traffic]:
  """The mean of compressed tensors.

  Args:
    tensors: f32, of this worker.
    codecs: one for each tensor.
    dtypes: of the means; uncompressed means are also sent in them.
    compress_pull: whether servers also compress what they send.

  Returns:
    The means, in these dtypes; what this worker withheld, as worker and as
    server; the bill.
  """
  mine = [c.compress(c.shard(x)) for c, x in zip(codecs, tensors, strict=True)]
  theirs, pushed = collectives.all_to_all(mine)
  decompress = lambda messages: [
    jax.vmap(c.decompress)(m) for c, m in zip(codecs, messages, strict=True)
  ]
  join = lambda shares: [
    c.join(s, x.shape) for c, s, x in zip(codecs, shares, tensors, strict=True)
  ]
  # Added one after the other: a sum along the first axis of a few long rows
  # takes 30 times as long when compiled for a CPU.
  served = [sum(shares) / len(shares) for shares in decompress(theirs)]
  withheld = [
    x - sent for x, sent in zip(tensors, join(decompress(mine)), strict=True)
  ]
  if not compress_pull:
    shares, _, pulled = collectives.all_gather(
      [x.astype(dtype) for x, dtype in zip(served, dtypes, strict=True)]
    )
    return join(shares), withheld, pushed + pulled
  shares, pulled = _pull_compressed(served, codecs)
  kept = join(_withheld_by_servers(served, shares))
  means = [x.astype(t) for x, t in zip(join(shares), dtypes, strict=True)]
  return (
    means,
    [w + k for w, k in zip(withheld, kept, strict=True)],
    pushed + pulled,
  )


def _withheld_by_servers(
  served: Sequence[jax.Array], shares: Sequence[jax.Array]
) -> list[jax.Array]:
  """The residuals of servers. As in DoubleSqueeze, each is in the server's own
  share of its residual, times the number of workers."""
  n, me = lax.axis_size(axis()), lax.axis_index(axis())
  return [
    jnp.zeros_like(all_).at[me].set(n * (own - all_[me]))
    for own, all_ in zip(served, shares, strict=True)
  ]


def _pull_compressed(
  served: Sequence[jax.Array], codecs: Sequence[Layer]
) -> tuple[list[jax.Array], Traffic]:
  """All servers' shares, compressed on the way: f32[n, *share] each."""
  again = [c.again(s.shape) for c, s in zip(codecs, served, strict=True)]
  messages, _, pulled = collectives.all_gather(
    [c.compress(c.shard(s)) for c, s in zip(again, served, strict=True)]
  )
  decode = lambda c, message, share: c.join(
    jax.vmap(c.decompress)(message), share.shape
  )
  return [
    jax.vmap(lambda message: decode(c, message, s))(m)
    for c, m, s in zip(again, messages, served, strict=True)
  ], pulled
