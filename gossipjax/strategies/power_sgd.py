"""PowerSGD: low-rank gradients, by one power iteration per step.

  M_i = g_i + e_i,    p <- mean_i M_i q,    p <- orthonormal columns of p
  q <- mean_i M_i^T p,    g <- p q^T,    e_i <- M_i - p q^T

Two all-reduces of r (rows + columns) entries per matrix; q is the start of the
next step. Vectors, and matrices that would not shrink, travel uncompressed.
The last axis of a tensor is that of its columns.

Vogels et al., PowerSGD: practical low-rank gradient compression, 2019.
arXiv:1905.13727
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax import collectives, norms
from gossipjax.aggregator import Aggregator, Strategy, Tree, identity
from gossipjax.errors import UserError
from gossipjax.norms import needs_floats

_LEFT = 1e-12  # Share of a squared norm below which all is rounding error.


class PowerState(NamedTuple):
  residual: Tree  # f32, shaped like the gradients; zeros of those not shrunk.
  q: list[jax.Array]  # f32[columns, r] per matrix; the same on every worker.


def orthonormal(p: jax.Array) -> jax.Array:
  """Gram-Schmidt on the columns of f32[rows, r]; a redundant one is 0."""
  dot = lambda a, b: (a * b).sum()  # In f32, also where @ rounds its operands.
  columns = []
  for i in range(p.shape[1]):
    column = p[:, i]  # With a row of p.T, m @ q would compile as q.T @ m.T.
    before = dot(column, column)
    for other in columns:
      column -= dot(column, other) * other
    left = dot(column, column)
    columns.append(
      column * jnp.where(left > _LEFT * before, jax.lax.rsqrt(left), 0)
    )
  return jnp.stack(columns, axis=1)


def _transposed_times(m: jax.Array, p: jax.Array) -> jax.Array:
  """m.T @ p, which takes several times as long on a CPU."""
  return (p.T @ m).T


def _matrix(x: jax.Array) -> jax.Array:
  return x.reshape(-1, x.shape[-1])


def _shrinks(x: jax.Array, rank: int) -> bool:
  rows_and_columns = math.prod(x.shape[:-1]) + x.shape[-1] if x.ndim else 0
  return x.ndim > 1 and rank * rows_and_columns < x.size


def _unless_zero(q: jax.Array, old: jax.Array) -> jax.Array:
  """q with zero columns replaced by old ones: at zero they would stay zero."""
  return jnp.where((q != 0).any(axis=0, keepdims=True), q, old)


def _start(tree: Tree, rank: int, seed: int) -> PowerState:
  needs_floats(tree)
  key = jax.random.key(seed)
  large = [x for x in jax.tree.leaves(tree) if _shrinks(x, rank)]
  return PowerState(
    norms.zeros(tree),
    [
      jax.random.normal(
        jax.random.fold_in(key, i), (x.shape[-1], rank), norms.wide(x.dtype)
      )
      for i, x in enumerate(large)
    ],
  )


def low_rank_mean(rank: int, seed: int = 0) -> Aggregator:
  """The mean of each matrix at a given rank, with error feedback."""
  if rank < 1:
    raise UserError(f'rank must be at least 1, got {rank}.')

  def update(tree, state, step, active=True):
    del step
    collectives.needs_everyone(active)
    leaves, treedef = jax.tree.flatten(tree)
    residuals = jax.tree.leaves(state.residual)
    large = [i for i, x in enumerate(leaves) if _shrinks(x, rank)]
    small = [i for i, x in enumerate(leaves) if not _shrinks(x, rank)]
    wanted = [_matrix(leaves[i] + residuals[i]) for i in large]

    sketches = [m @ q for m, q in zip(wanted, state.q, strict=True)]
    (ps, dense), n, sent = collectives.all_reduce(
      (sketches, [leaves[i] for i in small])
    )
    ps = [orthonormal(p / n) for p in ps]
    qs, _, cost = collectives.all_reduce(
      [_transposed_times(m, p) for m, p in zip(wanted, ps, strict=True)]
    )
    qs = [q / n for q in qs]

    for i, m, p, q in zip(large, wanted, ps, qs, strict=True):
      mean, shape = p @ q.T, leaves[i].shape
      leaves[i] = mean.reshape(shape).astype(leaves[i].dtype)
      residuals[i] = (m - mean).reshape(shape)
    for i, total in zip(small, dense, strict=True):
      leaves[i] = total / n
    qs = list(map(_unless_zero, qs, state.q))
    state = PowerState(treedef.unflatten(residuals), qs)
    return treedef.unflatten(leaves), state, sent + cost

  return Aggregator(lambda tree: _start(tree, rank, seed), update)


def strategy(rank: int = 2, seed: int = 0) -> Strategy:
  """Args:
  rank: r >= 1, of every matrix.
  seed: of the first q.
  """
  return Strategy(low_rank_mean(rank, seed), identity())
