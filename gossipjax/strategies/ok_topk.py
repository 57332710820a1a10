"""Ok-Topk: a sparse all-reduce of the entries that matter to the sum.

  a_i = g_i + e_i,    S_i = top_k(a_i),    G = S_1 + ... + S_P where |.| >= t
  g <- G / P,    e_i <- a_i - S_i where G has it

Each worker sends its entries to their owners, which add them up and send the
sums that reach the threshold t, about k entries, to all workers. t is computed
exactly every `period` steps and reused in between. Each worker owns one of
every P neighboring entries. This balances the owners without the paper's
regions, which change every 64 steps. The local selection is exact by default;
the selection `reused` saves time, not bytes.

Li and Hoefler, Near-optimal sparse allreduce for distributed deep learning,
2022. arXiv:2201.07598
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, Strategy, identity
from gossipjax.compressors import largest as find
from gossipjax.compressors import sparse
from gossipjax.compressors.selections import Selection, exact
from gossipjax.errors import UserError
from gossipjax.flatten import ravel
from gossipjax.servers import sharded_server
from gossipjax.strategies.compressed import no_residual
from gossipjax.traffic import SILENCE
from gossipjax.transforms.bucketed import with_granularity
from gossipjax.transforms.warmup import with_warmup


class OkTopkState(NamedTuple):
  residual: jax.Array  # f32[n]; entries not applied so far.
  threshold: jax.Array  # f32[]; t, the same on every worker.
  past: Any = ()  # Memory of the local selection.


def _kth_of_all(magnitude: jax.Array, k: int):
  """Finds the k-th largest of all owners' entries exactly, 4 bits per round.

  It is the largest threshold that k entries reach. In each round, owners count
  their entries that reach each of 15 candidates. The paper gathers all sums,
  which takes more bytes.
  """
  keys = find.keys(magnitude.astype(jnp.float32))  # It may be float64.
  mine = lax.top_k(keys, min(k, keys.size))[0]
  mine = mine[::-1].astype(jnp.uint32)
  kth, sent = jnp.uint32(0), SILENCE
  for bits in range(28, -1, -4):
    candidates = kth + (jnp.arange(1, 16, dtype=jnp.uint32) << bits)
    reach, cost = collectives.all_sum(
      mine.size - jnp.searchsorted(mine, candidates)
    )
    digit = (reach >= k).sum(dtype=jnp.uint32)
    kth, sent = kth + (digit << bits), sent + cost
  return lax.bitcast_convert_type(kth, jnp.float32), sent


def ok_topk_mean(
  density: float, period: int, selection: Selection = exact.selection()
) -> Aggregator:
  """About k largest entries of the sum of all workers' top-k, divided by P."""
  sparse.count(density, 10**9)
  if period < 1:
    raise UserError(f'period of ok_topk must be at least 1 step, got {period}.')

  def init(tree):
    return OkTopkState(
      no_residual(tree).residual, jnp.float32(0), selection.begin()
    )

  def update(gradients, state, step, active=True):
    collectives.needs_everyone(active)
    flat, unravel = ravel(gradients)
    wanted, size = flat + state.residual, flat.size
    mine, past = sparse.choose(wanted, density, selection, step, state.past)
    k = mine.indices.size
    total, touched, pushed = sharded_server.push(mine, size)
    threshold, compared = lax.cond(
      step % period == 0,
      lambda: _kth_of_all(jnp.abs(total), k),
      lambda: (state.threshold, SILENCE),
    )

    # In the precision of the threshold. A NaN is sent, not kept unseen.
    touched &= ~(jnp.abs(total).astype(jnp.float32) < threshold)
    total, applied, pulled = sharded_server.pull(total, touched, size, k)
    residual = wanted.at[mine.indices].add(
      -jnp.where(applied[mine.indices], mine.values, 0)
    )
    mean = total / lax.axis_size(collectives.axis())
    state = OkTopkState(residual, threshold, past)
    return unravel(mean.astype(flat.dtype)), state, pushed + compared + pulled

  return Aggregator(init, update)


@with_warmup
@with_granularity
def strategy(
  density: float = 0.01,
  period: int = 32,
  selection: Selection = exact.selection(),
) -> Strategy:
  """Args:
  density: k / n, above 0, at most 1.
  period: steps between two exact thresholds of the sum; each bucket has a
    threshold of its own.
  selection: how a worker's k largest are found, exactly or nearly.
  """
  return Strategy(ok_topk_mean(density, period, selection), identity())
