"""Tensors cut into shards, as in fully sharded data parallelism (FSDP).

Every tensor is cut along its longest axis (the first of equally long ones) into
pieces of one shape; zeros pad the last ones. Shard i of a tree is piece i of
every tensor.
"""

from typing import Any

import jax
import jax.numpy as jnp

from gossipjax.aggregator import Aggregator, Tree
from gossipjax.traffic import at_once


def _axis(x: Any) -> int:
  """The axis along which a tensor is cut."""
  return max(range(x.ndim), key=lambda i: x.shape[i]) if x.ndim else 0


def cut(tree: Tree, number: int) -> Tree:
  """All shards of a tree.

  Args:
    tree: arrays.
    number: of shards.

  Returns:
    arrays [number, ...], whose row i is shard i.
  """

  def pieces(x):
    x, axis = jnp.atleast_1d(x), _axis(x)
    missing = -x.shape[axis] % number
    x = jnp.pad(x, [(0, missing * (i == axis)) for i in range(x.ndim)])
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    length = x.shape[axis] // number  # Explicit, as there may be no entries.
    return jnp.moveaxis(x.reshape(*before, number, length, *after), axis, 0)

  return jax.tree.map(pieces, tree)


def joined(shards: Tree, like: Tree) -> Tree:
  """Joins all shards of a tree to that tree.

  Args:
    shards: arrays [number, ...].
    like: arrays of the tree's shapes.
  """

  def joined_leaf(pieces, x):
    axis = _axis(x)
    rows = jnp.moveaxis(pieces, 0, axis)
    before, after = rows.shape[:axis], rows.shape[axis + 2 :]
    length = rows.shape[axis] * rows.shape[axis + 1]
    flat = rows.reshape(*before, length, *after)
    size = x.shape[axis] if x.ndim else 1
    return jax.lax.slice_in_dim(flat, 0, size, axis=axis).reshape(x.shape)

  return jax.tree.map(joined_leaf, shards, like)


def by_shards(number: int, aggregator: Aggregator) -> Aggregator:
  """Runs an aggregator on each shard of a tree by itself.

  All shards draw the same random numbers. The bill is that of devices that
  exchange their shards at the same time. The program lists the shards one by
  one: in a batch of them (`jax.vmap`), an aggregator that chooses the size of
  its messages at run time (servers/boxes.py) would send all sizes.

  Args:
    number: of shards.
    aggregator: of one shard.
  """

  def init(tree):
    return jax.vmap(aggregator.init)(cut(tree, number))

  def update(tree, state, step, active=True):
    inputs = cut(tree, number), state
    results = [
      aggregator.update(*jax.tree.map(lambda x: x[i], inputs), step, active)
      for i in range(number)
    ]
    shards, state, sent = jax.tree.map(lambda *x: jnp.stack(x), *results)
    return joined(shards, tree), state, at_once(sent)

  return Aggregator(init, update)
