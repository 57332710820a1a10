"""Trees that travel as one vector."""

import jax
import jax.numpy as jnp

from gossipjax.aggregator import Aggregator, Tree


def pack(tree: Tree):
  """One vector per dtype and the way back, `vectors -> tree`; both exact."""
  leaves, treedef = jax.tree.flatten(tree)
  groups = {}
  for k, leaf in enumerate(leaves):
    groups.setdefault(str(leaf.dtype), []).append(k)
  vectors = {dtype: jnp.concatenate([leaves[k].reshape(-1) for k in members])
             for dtype, members in groups.items()}

  def unpack(vectors):
    found = {}
    for dtype, members in groups.items():
      start = 0
      for k in members:
        end = start + leaves[k].size
        found[k] = vectors[dtype][start:end].reshape(leaves[k].shape)
        start = end
    return jax.tree.unflatten(treedef, [found[k] for k in range(len(leaves))])

  return vectors, unpack


def packed(aggregator: Aggregator) -> Aggregator:
  """Lets `aggregator` see a few long vectors in place of many leaves.

  The same numbers and bytes in as many collectives as there are dtypes: for 65
  leaves, 8 workers and 16 random maps the program compiles 5 times as fast and
  runs twice as fast. What comes back are slices of the vectors; a convolution
  should meet them in the next program only, see `train.py`.
  """

  def init(tree):
    return aggregator.init(pack(tree)[0])

  def update(tree, state, step, active=True):
    vectors, unpack = pack(tree)
    vectors, state, sent = aggregator.update(vectors, state, step, active)
    return unpack(vectors), state, sent

  return Aggregator(init, update)
