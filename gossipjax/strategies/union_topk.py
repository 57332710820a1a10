"""Top-k through a sharded server, chosen so that workers agree more.

  a_i = g_i + e_i,    S_i = the k of a_i with the largest score
  g <- 1/P sum_i S_i,    e_i <- a_i - S_i,    U = union of the S_i's indices

Each worker sends its entries to their owners, who add up and send U to all:
the answer's size is |U|, from k if all chose alike to P k. Metrics:

  plain        |a_j|
  popularity   |a_j| (1 + lambda p_j),    p <- gamma p + (1 - gamma) [j in U]
  recent       an average of |a_j| over the latest steps, decaying with gamma
  two_budgets  |a_j| if above c times its root mean square, the others only
               after these and only from the previous U; at most k

Wang, Liu, Wu, Communication usage optimization of gradient sparsification with
aggregation, 2018. Metrics and numbers are not public: these are ours.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from gossipjax import collectives, sharded
from gossipjax.aggregator import Aggregator, Strategy, identity
from gossipjax.compressors import selection, sparse
from gossipjax.refusal import Refusal, nearest
from gossipjax.strategies.compressed import no_residual


class Metric(NamedTuple):
  """Attributes:
    remember: `(memory, |a|, in_union) -> memory`, after an exchange.
    score: `(|a|, memory) -> f32[n]`; the largest are sent, zeros never.
  """

  remember: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
  score: Callable[[jax.Array, jax.Array], jax.Array]


class UnionState(NamedTuple):
  residual: jax.Array  # f32[n]; what was not sent so far.
  memory: jax.Array  # f32[n]; the metric's.
  union: jax.Array  # i32[]; |U| of the last exchange.


def _popularity(weight: float, decay: float) -> Metric:
  return Metric(lambda p, a, union: decay * p + (1 - decay) * union,
                lambda a, p: a * (1 + weight * p))


def _recent(decay: float) -> Metric:
  mean = lambda m, a: decay * m + (1 - decay) * a
  return Metric(lambda m, a, union: mean(m, a), lambda a, m: mean(m, a))


def _two_budgets(large: float) -> Metric:

  def score(a, union):
    is_large = a >= large * jnp.sqrt(jnp.mean(a**2))
    a = a / jnp.where(a.max() > 0, a.max(), 1)  # At most 1, so large is first.
    return jnp.where(is_large, 1 + a, a * union)

  return Metric(lambda u, a, union: union.astype(jnp.float32), score)


def _metrics(weight, decay, large):
  return {'plain': _popularity(0., decay), 'recent': _recent(decay),
          'popularity': _popularity(weight, decay),
          'two_budgets': _two_budgets(large)}


def union_mean(density: float, metric: Metric, patience: int | None = None
               ) -> Aggregator:
  """The mean of everyone's k entries of the highest score.

  Args:
    density: k / n.
    metric: what is worth sending.
    patience: no entry waits longer than so many steps, since each of them
      begins with its share of all entries in turn, the same for everyone;
      None lets entries wait forever.
  """

  def init(tree):
    residual = no_residual(tree).residual
    size, k = residual.size, sparse.count(density, residual.size)
    if patience is not None and patience * k < size:
      raise Refusal(f'patience={patience} steps of {k} entries do not get round'
                    f' all {size}; it has to be {-(-size // k)} or more.')
    return UnionState(residual, residual, jnp.int32(0))

  def update(gradients, state, step, active=True):
    collectives.needs_everyone(active)
    flat, unravel = ravel_pytree(gradients)
    wanted, size = flat + state.residual, flat.size
    score = metric.score(jnp.abs(wanted), state.memory)
    if patience is not None:
      turn = jnp.arange(size) % patience == step % patience
      score = jnp.where(turn, jnp.inf, score)
    k = sparse.count(density, size)
    best = selection.ascending(score, k)
    best = jnp.where(score[best] > 0, best, size)
    values = wanted.at[best].get(mode='fill', fill_value=0)

    total, touched, pushed = sharded.push(sparse.Sparse(values, best), size)
    total, union, pulled = sharded.pull(total, touched, size, k)
    residual = wanted.at[best].set(0, mode='drop')
    memory = metric.remember(state.memory, jnp.abs(wanted), union)
    mean = total / jax.lax.axis_size(collectives.WORKERS)
    return unravel(mean.astype(flat.dtype)), UnionState(
        residual, memory, union.sum(dtype=jnp.int32)), pushed + pulled

  return Aggregator(init, update)


def strategy(density: float = 0.01, metric: str = 'popularity',
             weight: float = 2., decay: float = 0.9, large: float = 3.,
             patience: int | None = None) -> Strategy:
  """`weight`, `decay`, `large`: lambda, gamma (a step) and c above."""
  if weight < 0 or not 0 <= decay < 1 or large <= 0:
    raise Refusal('union_topk takes weight >= 0, 0 <= decay < 1 and large > 0, '
                  f'not {weight}, {decay} and {large}.')
  known = _metrics(weight, decay, large)
  if metric not in known:
    raise Refusal(f'metric={metric} is unknown{nearest(metric, known)}')
  sparse.count(density, 10**9)
  return Strategy(union_mean(density, known[metric], patience), identity())
