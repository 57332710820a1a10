"""Gradient tracking (DSGT): gossip of parameters and of estimates of the mean.

  y_i(t) = sum_j W_ij y_j(t-1) + g_i(t) - g_i(t-1),    y_i(0) = g_i(0)
  x_i(t+1) = sum_j W_ij (x_j(t) - eta y_j(t))

y_i tracks the mean gradient: mean_i y_i == mean_i g_i at every step. The
optimizer uses y_i as the gradient. A worker sends two vectors per step. It
stores o_i = y_i - g_i, to which it adds sum_j W_ij (y_j - y_i): rounding errors
have the size of these differences and do not change the mean.

Pu & Nedic, A distributed stochastic gradient tracking method, 2018.
arXiv:1803.07741
"""

from typing import NamedTuple

import jax

from gossipjax import collectives, norms
from gossipjax.aggregator import Aggregator, Strategy, Tree
from gossipjax.strategies.gossip import add_differences, neighbor_mean
from gossipjax.topology import Topology, ring
from gossipjax.transforms.flattened import flattened


class TrackingState(NamedTuple):
  offset: Tree  # o_i, in float32 or wider; over workers it adds up to zero.


def tracked(topology: Topology) -> Aggregator:
  """Estimates the mean gradient, and exchanges estimates before a step."""

  def init(tree):
    return TrackingState(norms.zeros(tree))

  def update(gradients, state, step, active=True):
    collectives.needs_everyone(active)
    estimate = jax.tree.map(
      lambda g, o: (g + o).astype(g.dtype), gradients, state.offset
    )
    offset, sent = add_differences(state.offset, estimate, topology, step)
    return estimate, TrackingState(offset), sent

  return Aggregator(init, update)


def strategy(topology: Topology = ring) -> Strategy:
  """Args:
  topology: W, doubly stochastic.
  """
  return Strategy(
    flattened(tracked(topology)), flattened(neighbor_mean(topology))
  )
