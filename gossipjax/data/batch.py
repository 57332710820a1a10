"""Which of its examples a worker takes in a step."""

from typing import Any

import jax
import jax.numpy as jnp

from gossipjax.refusal import Refusal

Tree = Any


def batch(examples: Tree, key: jax.Array, step: jax.Array | int,
          size: int) -> Tree:
  """A worker's batch: a pure function of its key and the step.

  An epoch is m // size steps; each takes the next slice of a permutation that
  is drawn anew for every epoch, so no example comes twice in an epoch.

  Args:
    examples: arrays [m, ...]: one worker's share.
    key: this worker's key.
    step: int32[], from 0.
    size: examples in a batch.

  Returns:
    arrays [size, ...].

  Raises:
    Refusal: the batch is larger than the share.
  """
  share = jax.tree.leaves(examples)[0].shape[0]
  if not 1 <= size <= share:
    raise Refusal(f'batch_size must be between 1 and the {share} examples each '
                  f'worker has, not {size}')
  epoch, turn = step // (share // size), step % (share // size)
  order = jax.random.permutation(jax.random.fold_in(key, epoch), share)
  rows = jax.lax.dynamic_slice_in_dim(order, turn * size, size)
  return jax.tree.map(lambda x: jnp.asarray(x)[rows], examples)
