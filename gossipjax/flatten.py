"""Trees that travel in few pieces: small leaves share a vector."""

import jax
import jax.numpy as jnp

# Entries. Below, a collective of its own costs a leaf more than the copies into
# a shared vector and back. Of 0, 2^12, 2^14, 2^16 and no limit the best or near
# for gossip on a ring of 8 emulated devices, ms a step: ResNet-20 21, 9, 10, 7,
# 6; VGG-16 813, 521, 373, 563, 1,489.
LARGE = 2**14


def flatten(tree):
  """Pieces of one dtype each, and the exact way back, `pieces -> tree`."""
  leaves, treedef = jax.tree.flatten(tree)
  groups = {}
  for k, leaf in enumerate(leaves):
    name = f'leaf{k}' if leaf.size >= LARGE else str(leaf.dtype)
    groups.setdefault(name, []).append(k)
  pieces = {
    name: leaves[members[0]]
    if len(members) == 1
    else jnp.concatenate([leaves[k].reshape(-1) for k in members])
    for name, members in groups.items()
  }

  def unpack(pieces):
    found = [None] * len(leaves)
    for name, members in groups.items():
      start = 0
      for k in members:
        end, shape = start + leaves[k].size, leaves[k].shape
        found[k] = (
          pieces[name]
          if len(members) == 1
          else pieces[name][start:end].reshape(shape)
        )
        start = end
    return jax.tree.unflatten(treedef, found)

  return pieces, unpack
