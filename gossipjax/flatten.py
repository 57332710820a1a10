"""Joins leaves of a tree into long vectors, so that few arrays are sent."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jax.flatten_util import ravel_pytree

from gossipjax.devices.platform import platform

# In entries. For a smaller leaf a collective of its own takes longer than
# copying it into a shared vector and back. Milliseconds per step with limits of
# 0, 2^12, 2^14, 2^16 and infinity, for gossip on a ring of 8 emulated devices:
# ResNet-20 21, 9, 10, 7, 6; VGG-16 813, 521, 373, 563, 1,489.
LARGE = 2**14


def ravel(tree):
  """Joins all leaves, as `ravel_pytree`, which may take 100 times as long.

  It is faster in compiled programs on CPUs only. Outside of them it calls
  `ravel_pytree`: nothing is fused, and each write would copy the whole vector.

  Returns:
    All leaves in one vector, and the function from it to a tree.
  """
  flat, unravel = ravel_pytree(tree)
  fused = isinstance(flat, jax.core.Tracer) and platform() == 'cpu'
  if fused and 0 < flat.size < 2**31:  # Places are written by int32.
    leaves = (jnp.asarray(x, flat.dtype) for x in jax.tree.leaves(tree))
    flat = _joined(*(leaf.reshape(-1) for leaf in leaves))
  return flat, unravel


@custom_vmap
def _joined(*rows: jax.Array) -> jax.Array:
  """Arrays [..., n_i] of one dtype as [..., sum of n_i], each written in place.

  XLA for CPUs fuses a concatenation with the operations that follow. For each
  entry of the result it then loads from every operand under a mask, also beyond
  the operand's end. If no memory is mapped there, such a load takes some 100
  ns: 407,050 entries took 17 ms instead of 0.2, depending on where the
  allocator put the operands.
  """
  *outer, _ = rows[0].shape
  size, start = sum(row.shape[-1] for row in rows), 0
  flat = jnp.zeros((*outer, size), rows[0].dtype)
  for row in rows:
    flat = lax.dynamic_update_slice(flat, row, (*[0] * len(outer), start))
    start += row.shape[-1]
  return flat


@_joined.def_vmap
def _stacked(size, batched, *rows):
  """Batches `_joined`; JAX's own rule makes scatters, 8 times as slow."""
  full = [
    row if is_batched else jnp.broadcast_to(row, (size, *row.shape))
    for row, is_batched in zip(rows, batched, strict=True)
  ]
  return _joined(*full), True


def flatten(tree):
  """Joins leaves with fewer than 2^14 entries, one vector for each dtype.

  Returns:
    A dict of arrays, each a large leaf or a vector of small leaves of one
    dtype; and `unflatten`, from such a dict to a tree of the original form.
  """
  leaves, treedef = jax.tree.flatten(tree)
  groups = {}
  for k, leaf in enumerate(leaves):
    name = f'leaf{k}' if leaf.size >= LARGE else str(leaf.dtype)
    groups.setdefault(name, []).append(k)
  arrays = {
    name: leaves[members[0]]
    if len(members) == 1
    else jnp.concatenate([leaves[k].reshape(-1) for k in members])
    for name, members in groups.items()
  }

  def unflatten(arrays):
    restored = [None] * len(leaves)
    for name, members in groups.items():
      start = 0
      for k in members:
        end, shape = start + leaves[k].size, leaves[k].shape
        restored[k] = (
          arrays[name]
          if len(members) == 1
          else arrays[name][start:end].reshape(shape)
        )
        start = end
    return jax.tree.unflatten(treedef, restored)

  return arrays, unflatten
