"""PowerSGD: low-rank gradients, by one power iteration per step.

  M_i = g_i + e_i,    p <- mean_i M_i q,    p <- orthonormal columns of p
  q <- mean_i M_i^T p,    g <- p q^T,    e_i <- M_i - p q^T

For each matrix, two all-reduces add up r * rows and r * columns entries; the
next step starts from q. Vectors, and matrices that would not shrink, are sent
uncompressed. The last axis of a tensor gives columns, all others give rows.

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
  residual: Tree  # f32, shaped like the gradients; 0 where uncompressed.
  q: list[jax.Array]  # f32[columns, r] per matrix; the same on every worker.


def orthonormal(p: jax.Array) -> jax.Array:
  """Gram-Schmidt on the columns of f32[rows, r]; dependent columns become 0."""
  dot = lambda a, b: (a * b).sum()  # In f32, also where @ rounds its operands.
  columns = []
  for i in range(p.shape[1]):
    column = p[:, i]  # A row of p.T would make XLA compute m @ q as q.T @ m.T.
    before = dot(column, column)
    for other in columns:
      column -= dot(column, other) * other
    left = dot(column, column)
    columns.append(
      column * jnp.where(left > _LEFT * before, jax.lax.rsqrt(left), 0)
    )
  return jnp.stack(columns, axis=1)


def _transposed_times(m: jax.Array, p: jax.Array) -> jax.Array:
  """Returns m.T @ p, several times faster on a CPU than by that expression."""
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
  rank: r >= 1, for every matrix.
  seed: random seed of the first q.
  """
  return Strategy(low_rank_mean(rank, seed), identity())
