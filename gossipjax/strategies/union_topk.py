"""Top-k through a sharded server; workers favor the same entries.

  a_i = g_i + e_i,    S_i = the k of a_i with the largest score
  g <- 1/P sum_i S_i,    e_i <- a_i - S_i,    U = union of the S_i's indices

Each worker sends its entries to their owners, which add them up and send the
sums on U to all: |U| entries, from k if all workers choose the same up to P k.
Scores are in compressors/metrics.py: plain, popularity, recent, two_budgets.

Wang, Liu, Wu, Communication usage optimization of gradient sparsification with
aggregation, 2018. Metrics and numbers are not public: these are ours.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, Strategy, identity
from gossipjax.compressors import sparse
from gossipjax.compressors.metrics import Metric, metrics
from gossipjax.compressors.selections import Selection, exact
from gossipjax.errors import UserError, nearest
from gossipjax.flatten import ravel
from gossipjax.servers import sharded_server
from gossipjax.strategies.compressed import no_residual
from gossipjax.transforms.bucketed import with_granularity


class UnionState(NamedTuple):
  residual: jax.Array  # f32[n]; entries not sent so far.
  memory: jax.Array  # f32[n]; of the metric.
  union: jax.Array  # i32[]; |U| of the last exchange.
  past: Any = ()  # Memory of the selection.


def _check_patience(patience: int | None, size: int, k: int) -> None:
  if patience is not None and patience * k < size:
    raise UserError(
      f'patience={patience} steps of {k} entries cannot send all {size} '
      f'entries; it must be at least {-(-size // k)}.'
    )


def _first_of_turn(score: jax.Array, patience: int | None, step):
  """Scores in which every `patience`-th entry of each owner comes first."""
  if patience is None:
    return score
  turn = sharded_server.by_owner(score.size) % patience == step % patience
  return jnp.where(turn, jnp.inf, score)


def union_mean(
  density: float, metric: Metric, patience: int | None, selection: Selection
) -> Aggregator:
  """The mean of all workers' k entries with the highest score.

  Args:
    density: k / n, above 0, at most 1.
    metric: scores the entries.
    patience: most steps that an entry waits, since each step first sends the
      next 1 / patience of all entries; None lets entries wait forever.
    selection: how the k highest scores are found, exactly or nearly.
  """
  if patience is not None and not selection.largest:
    raise UserError('patience needs selection exact, reused or sampled.')

  def init(tree):
    zeros = no_residual(tree).residual
    sparse.check_size(zeros.size)
    _check_patience(patience, zeros.size, sparse.count(density, zeros.size))
    return UnionState(zeros, zeros, jnp.int32(0), selection.begin())

  def update(gradients, state, step, active=True):
    collectives.needs_everyone(active)
    flat, unravel = ravel(gradients)
    wanted, size = flat + state.residual, flat.size
    score = metric.score(jnp.abs(wanted), state.memory)
    score = _first_of_turn(score, patience, step)
    (worth, best), past = sparse.choose(
      score, density, selection, step, state.past
    )
    best = jnp.where(worth == 0, size, best)  # A NaN is sent, not kept unseen.
    values = wanted.at[best].get(mode='fill', fill_value=0)

    total, touched, pushed = sharded_server.push(
      sparse.Sparse(values, best), size
    )
    total, union, pulled = sharded_server.pull(total, touched, size, best.size)
    residual = wanted.at[best].set(0, mode='drop')
    memory = metric.remember(state.memory, jnp.abs(wanted), union)
    mean = total / jax.lax.axis_size(collectives.axis())
    count = union.sum(dtype=jnp.int32)
    state = UnionState(residual, memory, count, past)
    return unravel(mean.astype(flat.dtype)), state, pushed + pulled

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
  density: k / n, above 0, at most 1.
  metric: 'plain', 'popularity', 'recent' or 'two_budgets', see
    compressors/metrics.py; the mean square of two_budgets is that of a bucket.
  weight, decay, large: of the metrics, >= 0, 0 to below 1, > 0.
  patience: most steps that an entry waits, or None; enough steps to send all
    entries of each bucket.
  selection: how the k highest scores are found, exactly or nearly.
  """
  if not (weight >= 0 and 0 <= decay < 1 and large > 0):
    raise UserError(
      'union_topk takes weight >= 0, 0 <= decay < 1 and large > 0, '
      f'got {weight}, {decay} and {large}.'
    )
  by_name = metrics(weight, decay, large)
  if metric not in by_name:
    raise UserError(f'metric={metric} is unknown{nearest(metric, by_name)}')
  sparse.count(density, 10**9)
  mean = union_mean(density, by_name[metric], patience, selection)
  return Strategy(mean, identity())
