"""Exact global top-k: of the sum of everyone's top-k, the k largest.

  a_i = g_i + e_i,    S_i = top_k(a_i),    G = top_k(S_1 + ... + S_P)
  g <- G / P,    e_i <- a_i - S_i where G has it

What gTop-k's tree of merges approximates, at the price of top-k SGD: everyone
gathers everyone's message. What is not applied stays with its owner, so
nothing is lost. A control, not a way to save bytes.

The reference algorithm in Shi et al., 2019. arXiv:1901.04359
"""

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from gossipjax import collectives, sharded
from gossipjax.aggregator import Aggregator, Strategy, identity, select
from gossipjax.compressors import merging, selection, sparse, topk
from gossipjax.strategies.compressed import ResidualState, no_residual


def exact_global_topk_mean(density: float) -> Aggregator:
  """The k largest entries of the sum of everyone's top-k, over P."""
  compressor = topk(density)

  def update(gradients, state, step, active=True):
    del step
    flat, unravel = ravel_pytree(gradients)
    wanted = flat + state.residual
    mine = compressor.compress(wanted)
    messages, count, sent = collectives.all_gather(mine, active)

    total = sharded.add_up(messages, flat.size)
    best = selection.ascending(total, mine.indices.size)
    mean = jnp.zeros(flat.size).at[best].set(total[best]) / count
    applied = merging.contains(sparse.Sparse(None, best), mine.indices)
    residual = wanted.at[mine.indices].add(-jnp.where(applied, mine.values, 0))
    gradients, residual = select(
        active, (unravel(mean.astype(flat.dtype)), residual),
        (gradients, state.residual))
    return gradients, ResidualState(residual), sent

  return Aggregator(no_residual, update)


def strategy(density: float = 0.001) -> Strategy:
  """`density`: k / n, of each message and of what is applied."""
  return Strategy(exact_global_topk_mean(density), identity())
