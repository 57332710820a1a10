"""PowerSGD: the best direction of every weight matrix, one power step a step.

  M_i = g_i + e_i,    p <- mean_i M_i q,    p <- orthonormal columns of p
  q <- mean_i M_i^T p,    g <- p q^T,    e_i <- M_i - p q^T

Two all-reduces of r (rows + columns) entries a matrix; q is the next step's
start. Vectors, and matrices that would not shrink, travel as they are. The
last axis of a tensor are its columns.

Vogels et al., PowerSGD: practical low-rank gradient compression, 2019.
arXiv:1905.13727
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, Strategy, Tree, identity
from gossipjax.compressors.quantised import needs_floats
from gossipjax.errors import UserError

_LEFT = 1e-12  # Of a squared norm: less is rounding, and no direction.


class PowerState(NamedTuple):
  residual: Tree  # f32, shaped like the gradients; zeros of those not shrunk.
  q: list[jax.Array]  # f32[columns, r] per matrix; the same on every worker.


def orthonormal(p: jax.Array) -> jax.Array:
  """Gram and Schmidt's columns of f32[rows, r], zero where one is redundant."""
  dot = lambda a, b: (a * b).sum()  # In f32 also where @ rounds its operands.
  columns = []
  for i in range(p.shape[1]):
    column = p[:, i]  # A row of p.T would have m @ q compiled as q.T @ m.T.
    before = dot(column, column)
    for other in columns:
      column -= dot(column, other) * other
    left = dot(column, column)
    columns.append(
      column * jnp.where(left > _LEFT * before, jax.lax.rsqrt(left), 0)
    )
  return jnp.stack(columns, axis=1)


def _transposed_times(m: jax.Array, p: jax.Array) -> jax.Array:
  """m.T @ p, but that as such takes many times as long on a CPU."""
  return (p.T @ m).T


def _matrix(shape) -> tuple[int, int]:
  return math.prod(shape[:-1]), shape[-1]


def _shrinks(x: jax.Array, rank: int) -> bool:
  return x.ndim > 1 and rank * sum(_matrix(x.shape)) < x.size


def low_rank_mean(rank: int, seed: int = 0) -> Aggregator:
  """A mean of the given rank of every matrix; the rest waits in memory."""
  if rank < 1:
    raise UserError(f'rank is at least 1, got {rank}.')

  def init(tree):
    needs_floats(tree)
    key = jax.random.key(seed)
    large = [x for x in jax.tree.leaves(tree) if _shrinks(x, rank)]
    return PowerState(
      jax.tree.map(lambda x: jnp.zeros(x.shape), tree),
      [
        jax.random.normal(jax.random.fold_in(key, i), (x.shape[-1], rank))
        for i, x in enumerate(large)
      ],
    )

  def update(tree, state, step, active=True):
    del step
    collectives.needs_everyone(active)
    leaves, treedef = jax.tree.flatten(tree)
    residuals = jax.tree.leaves(state.residual)
    large = [i for i, x in enumerate(leaves) if _shrinks(x, rank)]
    small = [i for i, x in enumerate(leaves) if not _shrinks(x, rank)]
    wanted = [
      (leaves[i] + residuals[i]).reshape(_matrix(leaves[i].shape))
      for i in large
    ]

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
    # A column of zeros would stay one; its old self may find more next time.
    qs = [
      jnp.where((q != 0).any(axis=0, keepdims=True), q, old)
      for q, old in zip(qs, state.q, strict=True)
    ]
    state = PowerState(treedef.unflatten(residuals), qs)
    return treedef.unflatten(leaves), state, sent + cost

  return Aggregator(init, update)


def strategy(rank: int = 2, seed: int = 0) -> Strategy:
  """`rank`: r of every matrix; `seed`: of the first q."""
  return Strategy(low_rank_mean(rank, seed), identity())
