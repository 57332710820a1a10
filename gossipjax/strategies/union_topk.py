"""Top-k through a sharded server, chosen so that workers agree more.

  a_i = g_i + e_i,    S_i = the k of a_i with the largest score
  g <- 1/P sum_i S_i,    e_i <- a_i - S_i,    U = union of the S_i's indices

Each worker sends its entries to their owners, who add up and send U to all:
the answer's size is |U|, from k if all chose alike to P k. The metrics that
score are in compressors/metrics.py: plain, popularity, recent, two_budgets.

Wang, Liu, Wu, Communication usage optimization of gradient sparsification with
aggregation, 2018. Metrics and numbers are not public: these are ours.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, Strategy, identity
from gossipjax.compressors import sparse
from gossipjax.compressors.metrics import Metric, metrics
from gossipjax.compressors.selections import Selection, exact
from gossipjax.errors import UserError, nearest
from gossipjax.servers import sharded_server
from gossipjax.strategies.compressed import no_residual
from gossipjax.transforms.bucketed import with_granularity


class UnionState(NamedTuple):
  residual: jax.Array  # f32[n]; what was not sent so far.
  memory: jax.Array  # f32[n]; the metric's.
  union: jax.Array  # i32[]; |U| of the last exchange.
  past: Any = ()  # What the selection goes by.


def union_mean(
  density: float, metric: Metric, patience: int | None, selection: Selection
) -> Aggregator:
  """The mean of everyone's k entries of the highest score.

  Args:
    density: k / n.
    metric: what is worth sending.
    patience: no entry waits longer than so many steps, since each of them
      begins with its share of all entries in turn, the same for everyone;
      None lets entries wait forever.
    selection: of the k highest scores, or nearly.
  """
  if patience is not None and not selection.largest:
    raise UserError('patience needs a selection of the largest, not blockwise.')

  def init(tree):
    zeros = no_residual(tree).residual
    size, k = zeros.size, sparse.count(density, zeros.size)
    if patience is not None and patience * k < size:
      raise UserError(
        f'patience={patience} steps of {k} entries do not get round'
        f' all {size}; it has to be {-(-size // k)} or more.'
      )
    return UnionState(zeros, zeros, jnp.int32(0), selection.begin())

  def update(gradients, state, step, active=True):
    collectives.needs_everyone(active)
    flat, unravel = ravel_pytree(gradients)
    wanted, size = flat + state.residual, flat.size
    score = metric.score(jnp.abs(wanted), state.memory)
    if patience is not None:
      turn = jnp.arange(size) % patience == step % patience
      score = jnp.where(turn, jnp.inf, score)
    (worth, best), past = sparse.choose(
      score, density, selection, step, state.past
    )
    best = jnp.where(worth > 0, best, size)
    values = wanted.at[best].get(mode='fill', fill_value=0)

    total, touched, pushed = sharded_server.push(
      sparse.Sparse(values, best), size
    )
    total, union, pulled = sharded_server.pull(total, touched, size, best.size)
    residual = wanted.at[best].set(0, mode='drop')
    memory = metric.remember(state.memory, jnp.abs(wanted), union)
    mean = total / jax.lax.axis_size(collectives.WORKERS)
    return (
      unravel(mean.astype(flat.dtype)),
      UnionState(residual, memory, union.sum(dtype=jnp.int32), past),
      pushed + pulled,
    )

  return Aggregator(init, update)


@with_granularity
def strategy(
  density: float = 0.01,
  metric: str = 'popularity',
  weight: float = 2.0,
  decay: float = 0.9,
  large: float = 3.0,
  patience: int | None = None,
  selection: Selection = exact.selection(),
) -> Strategy:
  """Args:
  density: k / n.
  metric: plain, popularity, recent or two_budgets, see compressors/metrics.py;
    the mean square of two_budgets is that of a bucket.
  weight, decay, large: arguments of the metrics.
  patience: steps that an entry waits at most, or None; it has to suffice for
    each bucket.
  selection: how the k highest scores are found, exactly or nearly.
  """
  if weight < 0 or not 0 <= decay < 1 or large <= 0:
    raise UserError(
      'union_topk takes weight >= 0, 0 <= decay < 1 and large > 0, '
      f'not {weight}, {decay} and {large}.'
    )
  known = metrics(weight, decay, large)
  if metric not in known:
    raise UserError(f'metric={metric} is unknown{nearest(metric, known)}')
  sparse.count(density, 10**9)
  mean = union_mean(density, known[metric], patience, selection)
  return Strategy(mean, identity())
