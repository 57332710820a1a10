"""Gradient tracking (DSGT): gossip of parameters and of estimates of the mean.

  y_i(t) = sum_j W_ij y_j(t-1) + g_i(t) - g_i(t-1),    y_i(0) = g_i(0)
  x_i(t+1) = sum_j W_ij (x_j(t) - eta y_j(t))

y_i tracks the mean gradient: mean_i y_i == mean_i g_i at every step. The
optimizer takes y_i for a gradient. Two vectors travel per step.

Pu & Nedic, A distributed stochastic gradient tracking method, 2018.
arXiv:1803.07741
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, State, Strategy, Tree
from gossipjax.strategies.gossip import neighbor_mean
from gossipjax.topology import Topology, ring
from gossipjax.transforms.flattened import flattened


class TrackingState(NamedTuple):
  offset: Tree  # sum_j W_ij y_j - g_i of the last step; its sum is zero.
  mean: State  # Of the aggregator that mixes.


def tracked(mean: Aggregator) -> Aggregator:
  """Estimates of the mean gradient; sent when the step begins."""

  def init(tree):
    zeros = jax.tree.map(jnp.zeros_like, tree)
    return TrackingState(zeros, mean.init(tree))

  def update(gradients, state, step, active=True):
    collectives.needs_everyone(active)
    estimate = jax.tree.map(jnp.add, state.offset, gradients)
    mixed, inner, sent = mean.update(estimate, state.mean, step)
    offset = jax.tree.map(jnp.subtract, mixed, gradients)
    return estimate, TrackingState(offset, inner), sent

  return Aggregator(init, update)


def strategy(topology: Topology = ring) -> Strategy:
  """Args:
  topology: W, doubly stochastic.
  """
  mean = neighbor_mean(topology)
  return Strategy(flattened(tracked(mean)), flattened(mean))
