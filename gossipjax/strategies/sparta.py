"""SPARTA: average a few random parameters at every step.

  x_i[S] <- 1/P sum_j x_j[S]

where S is a share p of the entries, drawn anew at every step from a seed that
all workers share, so that messages need no indices. An entry is exchanged every
1/p steps on average; with a partition, once in each 1/p steps. The mean of the
workers is preserved. With p = 1 it averages all parameters at every step.

Beton et al., Improving the efficiency of distributed training using sparse
parameter averaging, MCDC workshop at ICLR, 2025; p and the partition are those
of EXO Gym.
"""

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import collectives
from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  every,
  identity,
  select,
)
from gossipjax.compressors import random_indices, sparse
from gossipjax.flatten import ravel


def _anew(n: int, k: int, key: jax.Array, step, state):
  """k of n entries, independently of earlier ones."""
  return random_indices.draw(jax.random.fold_in(key, step), n, k), state


def _in_turn(n: int, k: int, key: jax.Array, step, order):
  """The next k entries of a shuffled order, which lasts n / k exchanges."""
  rounds = -(-n // k)
  order = lax.cond(
    step % rounds == 0,
    lambda: jax.random.permutation(jax.random.fold_in(key, step // rounds), n),
    lambda: order,
  )
  first = jnp.minimum(step % rounds * k, n - k)  # The last turn repeats some.
  return lax.dynamic_slice(order, (first,), (k,)), order


def sampled_mean(
  density: float, seed: int, partition: bool = False
) -> Aggregator:
  """The exact mean of random entries; the others stay."""
  draw = _in_turn if partition else _anew

  def init(tree):
    size = ravel(tree)[0].size
    sparse.check_size(size)
    return jnp.arange(size) if partition else ()

  def update(tree, state, step, active=True):
    flat, unravel = ravel(tree)
    count = sparse.count(density, flat.size)
    indices, state = draw(flat.size, count, jax.random.key(seed), step, state)
    total, present, sent = collectives.all_reduce(flat[indices], active)
    mixed = unravel(flat.at[indices].set(total / present))
    return select(active, mixed, tree), state, sent

  return Aggregator(init, update)


def strategy(
  density: float = 0.005,
  period: int = 1,
  seed: int = 0,
  partition: bool = False,
) -> Strategy:
  """Args:
  density: p, above 0, at most 1.
  period: local steps between two exchanges, at least 1.
  seed: random seed of the entries, the same on all workers.
  partition: whether entries take turns, in an order that is shuffled anew when
    all have been exchanged; else each exchange draws from all.
  """
  sparse.count(density, 10**9)  # An impossible density is refused at once.
  return Strategy(
    identity(), every(period, sampled_mean(density, seed, partition))
  )
