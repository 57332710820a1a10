"""The batch of a worker in a step."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.errors import UserError

Tree = Any
# With 6, the places of single numbers and of pairs are uniform as far as 40,000
# permutations of 3 to 100 numbers can tell; with 4, not for fewer than 24.
ROUNDS = 6


def batch(
  examples: Tree,
  key: jax.Array,
  step: jax.Array | int,
  size: int,
  worker: jax.Array | None = None,
  part: tuple[jax.Array | int, int] = (0, 1),
) -> Tree:
  """A worker's batch: a pure function of its key and the step.

  An epoch is m // size steps; each takes the next slice of a permutation that
  is drawn anew for every epoch, so no example comes twice in an epoch.

  Args:
    examples: arrays [m, ...]: one worker's share; or the shares of all,
      [workers, m, ...], if `worker` selects one.
    key: this worker's key.
    step: int32[], from 0.
    size: examples in a batch.
    part: (i, n) for the i-th of n equal parts of the batch.

  Returns:
    arrays [size / n, ...].

  Raises:
    UserError: the batch is larger than the share.
  """
  share = jax.tree.leaves(examples)[0].shape[0 if worker is None else 1]
  check_size(size, share)
  rows = batch_indices(key, step, size, share).reshape(part[1], -1)[part[0]]
  index = rows if worker is None else (worker, rows)
  return jax.tree.map(lambda x: jnp.asarray(x)[index], examples)


def check_size(size: int, share: int) -> None:
  """Raises a UserError unless a worker's share has enough for a batch."""
  if not 1 <= size <= share:
    raise UserError(
      f'config.batch_size={size} must be between 1 and the {share} examples '
      'that each worker has; set a smaller one, or fewer config.workers.'
    )


def batch_indices(
  key: jax.Array, step: jax.Array | int, size: int, share: int
) -> jax.Array:
  """Indices of a worker's batch among its `share` examples, int32[size]."""
  epoch, turn = step // (share // size), step % (share // size)
  first = turn * size + jnp.arange(size)
  return permuted(first, jax.random.fold_in(key, epoch), share)


def permuted(i: jax.Array, key: jax.Array, n: int) -> jax.Array:
  """The images of i under a random permutation of 0 .. n - 1.

  jax.random.permutation sorts all n numbers to yield a few. For eight emulated
  workers with 6,250 examples that takes 9 ms a step, a tenth of a ResNet-8 step
  on a CPU. This function computes only the images of i, in 0.4 ms: the numbers
  fill a rectangle of about sqrt(n) x sqrt(n); its rows and columns are rotated
  in turn, each by a random amount. An image outside 0 .. n - 1 is permuted
  again until it is inside.

  A generalised Feistel cipher with cycle walking: Black and Rogaway, 2002,
  Ciphers with arbitrary finite domains, doi:10.1007/3-540-45760-7_9.

  Args:
    i: int32[...], each in 0 .. n - 1.
    key: of the permutation.
    n: how many numbers there are.

  Returns:
    int32[...], different for different i.
  """
  height = math.isqrt(n - 1) + 1
  width = -(-n // height)
  shifts = _shifts(key, height, width)

  def turn(at, shift):
    row, column = at
    column = lax.rem(column + shift[0, row], width)
    row = lax.rem(row + shift[1, column], height)
    return (row, column), None

  def rotate(i: jax.Array) -> jax.Array:
    at = lax.div(i, width), lax.rem(i, width)
    (row, column), _ = lax.scan(turn, at, shifts)
    return row * width + column

  def walk(at: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    i, outside = at
    i = jnp.where(outside, rotate(i), i)
    return i, i >= n

  everywhere = jnp.ones_like(i, bool)
  found, _ = lax.while_loop(lambda at: at[1].any(), walk, (i, everywhere))
  return found


def _shifts(key: jax.Array, height: int, width: int) -> jax.Array:
  """By how much rows and columns are rotated, int32[ROUNDS, 2, height].

  They are drawn as a vector, which yields the same numbers and compiles in a
  sixth of the time.
  """
  shape = ROUNDS, 2, height
  vector = jax.random.randint(key, (math.prod(shape),), 0, height * width)
  return vector.reshape(shape)
