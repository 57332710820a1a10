"""SPARTA: average a few random parameters at every step.

  x_i[S] <- 1/P sum_j x_j[S]

where S are a share p of the entries, drawn anew at every step from a seed that
all workers share, so that messages have no indices. An entry is exchanged every
1/p steps on average. The mean of the workers is preserved. With p = 1 it
averages all parameters at every step.

Beton et al., Improving the efficiency of distributed training using sparse
parameter averaging, MCDC workshop at ICLR, 2025; p is that of EXO Gym.
"""

import jax
from jax.flatten_util import ravel_pytree

from gossipjax import collectives
from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  every,
  identity,
  select,
  stateless,
)
from gossipjax.compressors import random_indices, sparse


def sampled_mean(density: float, seed: int) -> Aggregator:
  """The exact mean of random entries; the others stay."""

  def update(tree, step, active):
    flat, unravel = ravel_pytree(tree)
    drawn = random_indices.draw(
      jax.random.fold_in(jax.random.key(seed), step),
      flat.size,
      sparse.count(density, flat.size),
    )
    total, count, sent = collectives.all_reduce(flat[drawn], active)
    mixed = unravel(flat.at[drawn].set(total / count))
    return select(active, mixed, tree), sent

  return stateless(update)


def strategy(
  density: float = 0.005, period: int = 1, seed: int = 0
) -> Strategy:
  """Args:
  density: p.
  period: local steps between two exchanges.
  seed: of the entries drawn, the same on all workers.
  """
  sparse.count(density, 10**9)  # An impossible density is refused at once.
  return Strategy(identity(), every(period, sampled_mean(density, seed)))
