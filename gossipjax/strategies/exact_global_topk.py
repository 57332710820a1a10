"""Exact global top-k: the k largest of the sum of all top-k.

  a_i = g_i + e_i,    S_i = top_k(a_i),    G = top_k(S_1 + ... + S_P)
  g <- G / P,    e_i <- a_i - S_i where G has it

gTop-k's tree of merges approximates this. Every worker gathers all messages and
so sends as many bytes as under top-k SGD. Entries that are not applied stay in
their worker's residual, and nothing is lost. The strategy is a control, not a
way to save bytes.

The reference algorithm in Shi et al., 2019. arXiv:1901.04359
"""

import jax.numpy as jnp

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, Strategy, identity, select
from gossipjax.compressors import largest as find
from gossipjax.compressors import merging, sparse
from gossipjax.compressors.selections import Selection, exact
from gossipjax.flatten import ravel
from gossipjax.servers import sharded_server
from gossipjax.strategies.compressed import ResidualState, no_residual
from gossipjax.transforms.bucketed import with_granularity
from gossipjax.transforms.warmup import with_warmup


def exact_global_topk_mean(density: float, selection: Selection) -> Aggregator:
  """The k largest entries of the sum of all workers' top-k, over P."""
  sparse.count(density, 10**9)

  def update(gradients, state, step, active=True):
    flat, unravel = ravel(gradients)
    wanted = flat + state.residual
    mine, past = sparse.choose(wanted, density, selection, step, state.past)
    messages, count, sent = collectives.all_gather(mine, active)

    total = sharded_server.add_up(messages, flat.size)
    best = find.ascending(total, mine.indices.size)
    mean = jnp.zeros_like(total).at[best].set(total[best]) / count
    applied = merging.values_in(sparse.Sparse(None, best), mine)
    residual = wanted.at[mine.indices].add(-applied, mode='drop')
    gradients, state = select(
      active,
      (unravel(mean.astype(flat.dtype)), ResidualState(residual, past)),
      (gradients, state),
    )
    return gradients, state, sent

  return Aggregator(lambda tree: no_residual(tree, selection.begin()), update)


@with_warmup
@with_granularity
def strategy(
  density: float = 0.001, selection: Selection = exact.selection()
) -> Strategy:
  """Args:
  density: k / n, above 0, at most 1, of each message and of what is applied.
  selection: how a worker's k largest are found, exactly or nearly; indices
    always take 4 bytes. The k largest of the sum are always exact.
  """
  return Strategy(exact_global_topk_mean(density, selection), identity())
