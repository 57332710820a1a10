"""NoLoCo: DiLoCo's outer step in random pairs, without an all-reduce.

  d_i <- a d_i - b mean(s_j - x_j) - c (s_i - mean(s_j)),    mean over the pair
  s_i <- s_i + d_i,    x_i <- s_i

every `period` steps, where s_i are the parameters from which worker i last
started. The last term pulls the pair together; replicas never become equal. A
worker sends one vector, not two: with q_j = b x_j + (c - b) s_j, which is b x_j
for the paper's b = c, the update is d_i <- a d_i + mean(q_j) - c s_i. If all
workers form one group it is DiLoCo with heavy-ball momentum; with a = 0 and
b = c = 1 it is pairwise averaging. With many workers and new random pairs each
time, the variance between replicas stays bounded for c < 2 (1 - a^2): 1.5 at
a = 0.5, 0.38 at a = 0.9.

Kolehmainen et al., NoLoCo: no-all-reduce low communication training method for
large models, 2025. arXiv:2506.10911. The sign in its equation 2 is taken from
its code, which adds the progress x - s.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax import collectives
from gossipjax.aggregator import (
  Aggregator,
  State,
  Strategy,
  Tree,
  every,
  identity,
)
from gossipjax.errors import UserError
from gossipjax.strategies.gossip import neighbor_mean
from gossipjax.topology import random_matching
from gossipjax.transforms.flattened import flattened

NOT_CONSERVED = {'parameters': 'The outer momentum moves each worker further.'}


class PairState(NamedTuple):
  start: Tree  # s_i, of this worker.
  velocity: Tree  # d_i.
  mean: State  # State of the aggregator that takes the mean.


def pulled_momentum(
  momentum: float, stepsize: float, pull: float, mean: Aggregator
) -> Aggregator:
  """The outer step, with any mean over neighbors instead of a pair's mean."""

  def init(tree):
    zeros = jax.tree.map(jnp.zeros_like, tree)
    return PairState(tree, zeros, mean.init(tree))

  def update(tree, state, step, active=True):
    collectives.needs_everyone(active)
    mine = jax.tree.map(
      lambda x, s: stepsize * x + (pull - stepsize) * s, tree, state.start
    )
    mixed, inner, sent = mean.update(mine, state.mean, step)
    velocity = jax.tree.map(
      lambda d, q, s: momentum * d + (q - pull * s),
      state.velocity,
      mixed,
      state.start,
    )
    start = jax.tree.map(jnp.add, state.start, velocity)
    return start, PairState(start, velocity, inner), sent

  return Aggregator(init, update)


def strategy(
  period: int = 50,
  momentum: float = 0.5,
  stepsize: float = 0.7,
  pull: float = 0.7,
  seed: int = 0,
  schedule: int = 16,
) -> Strategy:
  """Args:
  period: local steps between two exchanges, at least 1.
  momentum, stepsize, pull: a from 0 to below 1, b > 0, c >= 0.
  seed: random seed of the pairs, the same on all workers.
  schedule: rounds of pairs before they repeat, at least 1.
  """
  if not (0 <= momentum < 1 and stepsize > 0 and pull >= 0):
    raise UserError(
      'noloco takes momentum from 0 to below 1, stepsize > 0 and pull >= 0, '
      f'got {momentum}, {stepsize} and {pull}.'
    )
  pairs = neighbor_mean(random_matching(seed, schedule))
  outer = flattened(pulled_momentum(momentum, stepsize, pull, pairs))
  return Strategy(identity(), every(period, outer))
