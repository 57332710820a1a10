"""Random-k SGD: all workers send the same entries, drawn from a shared seed.

  a_i = g_i + e_i,    g <- 1/P sum_i a_i on R,    e_i <- a_i off R

where R are k entries drawn anew at every step. All workers draw the same
entries, so messages need no indices, and a ring all-reduce adds up k values.

Stich et al., Sparsified SGD with memory, 2018. arXiv:1809.07599
"""

import jax
import jax.numpy as jnp

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, Strategy, identity, select
from gossipjax.compressors import random_indices, sparse
from gossipjax.flatten import ravel
from gossipjax.strategies.compressed import ResidualState, no_residual
from gossipjax.transforms.bucketed import with_granularity


def random_k_mean(density: float, seed: int) -> Aggregator:
  """The exact mean of k random entries; the others stay in the residual."""

  def update(tree, state, step, active=True):
    flat, unravel = ravel(tree)
    wanted = flat + state.residual
    indices = random_indices.draw(
      jax.random.fold_in(jax.random.key(seed), step),
      flat.size,
      sparse.count(density, flat.size),
    )
    total, count, sent = collectives.all_reduce(wanted[indices], active)

    mean = jnp.zeros_like(wanted).at[indices].set(total / count)
    residual = wanted.at[indices].set(0)
    tree, residual = select(
      active,
      (unravel(mean.astype(flat.dtype)), residual),
      (tree, state.residual),
    )
    return tree, ResidualState(residual), sent

  return Aggregator(no_residual, update)


@with_granularity
def strategy(density: float = 0.01, seed: int = 0) -> Strategy:
  """Args:
  density: k / n, above 0, at most 1.
  seed: random seed of the entries, the same on all workers.
  """
  sparse.count(density, 10**9)  # An impossible density is refused at once.
  return Strategy(random_k_mean(density, seed), identity())
