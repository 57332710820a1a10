"""Weighted merges of the progress of workers, from sums of what they report.

  mean:       D = sum w_i D_i / sum w_i
  direction:  D = (sum w_i |D_i| / sum w_i) * unit(sum w_i unit(D_i)),
              for each tensor by itself

The mean of vectors in different directions is shorter than their mean length;
the second merge keeps that length.

Decoupled DiLoCo, 2026. arXiv:2604.21428
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax.aggregator import Tree
from gossipjax.errors import UserError, nearest
from gossipjax.norms import needs_floats, widened

MERGES = ('mean', 'direction')
CANCELLED = 1e-6  # Of the sum of weights; a shorter sum is rounding error.


class Reports(NamedTuple):
  """The sums of what workers have reported since the last outer step."""

  moves: Tree  # sum of w_i D_i, or of w_i unit(D_i).
  lengths: Tree  # f32[] per tensor, or wider; sum of w_i |D_i|. () for mean.
  weight: jax.Array  # f32[]; sum of w_i.
  workers: jax.Array  # f32[]


def report(moved: Tree, weight: jax.Array, merge: str) -> Reports:
  """What one worker reports of its progress D_i.

  Args:
    moved: D_i.
    weight: f32[]; w_i.
    merge: one of MERGES.
  """
  needs_floats(moved, 'decoupled_diloco')
  moved = jax.tree.map(widened, moved)
  length: Tree = ()
  if merge == 'direction':
    length = jax.tree.map(lambda d: jnp.sqrt(jnp.sum(d * d)), moved)
    unit = lambda d, r: d / jnp.where(r > 0, r, 1)
    moved = jax.tree.map(unit, moved, length)
  weighted = lambda tree: jax.tree.map(lambda x: weight * x, tree)
  # A worker without a step since it received the parameters does not count.
  workers = (weight > 0).astype(jnp.float32)
  return Reports(weighted(moved), weighted(length), weight, workers)


def merged(reports: Reports, merge: str, like: Tree) -> Tree:
  """D, with the dtypes of `like`; zero for a tensor whose directions cancel."""
  weight = jnp.maximum(reports.weight, 1)
  if merge == 'mean':
    mean = lambda moves, x: (moves / weight).astype(x.dtype)
    return jax.tree.map(mean, reports.moves, like)

  def leaf(moves, length, x):
    norm = jnp.sqrt(jnp.sum(moves * moves))
    # Directions that cancel leave rounding errors, which are no direction.
    directed = norm > CANCELLED * weight
    unit = jnp.where(directed, moves / jnp.where(directed, norm, 1), 0)
    return (length / weight * unit).astype(x.dtype)

  return jax.tree.map(leaf, reports.moves, reports.lengths, like)


def check(merge: str) -> None:
  """Raises a UserError unless there is such a merge."""
  if merge not in MERGES:
    raise UserError(f'merge={merge} is unknown{nearest(merge, MERGES)}')
