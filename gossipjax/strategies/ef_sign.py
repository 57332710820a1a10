"""EF-signSGD: one bit an entry, one scale a layer, and a memory of the error.

  a_i = g_i + e_i,    C(a) = sign(a) mean |a| of each layer
  g <- mean_j C(a_j),    e_i <- a_i - C(a_i)

Karimireddy et al., Error feedback fixes SignSGD and other gradient compression
schemes, 2019. arXiv:1901.09847
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax import collectives, norms
from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  Tree,
  identity,
  select,
)
from gossipjax.compressors import sign
from gossipjax.norms import needs_floats


class LayerState(NamedTuple):
  residual: Tree  # f32, shaped like the gradients; withheld so far.


def sign_mean() -> Aggregator:
  """The mean of the workers' signs, with a scale for each layer."""
  codec = sign()

  def init(tree):
    needs_floats(tree)
    return LayerState(norms.zeros(tree))

  def update(tree, state, step, active=True):
    del step
    wanted = jax.tree.map(jnp.add, tree, state.residual)
    mine = [codec.compress(x.ravel()) for x in jax.tree.leaves(wanted)]
    theirs, count, sent = collectives.all_gather(mine, active)

    leaves, treedef = jax.tree.flatten(wanted)
    mean, residual = [], []
    for x, message, messages in zip(leaves, mine, theirs, strict=True):
      mean.append(codec.mean(messages, x.size, count).reshape(x.shape))
      residual.append(x - codec.decompress(message, x.size).reshape(x.shape))
    mean = jax.tree.map(
      lambda m, x: m.astype(x.dtype), treedef.unflatten(mean), tree
    )
    tree, residual = select(
      active, (mean, treedef.unflatten(residual)), (tree, state.residual)
    )
    return tree, LayerState(residual), sent

  return Aggregator(init, update)


def strategy() -> Strategy:
  return Strategy(sign_mean(), identity())
