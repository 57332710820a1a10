"""Delayed gossip: workers keep computing while parameters are in flight.

  y_i = x_i + the changes in flight to worker i
  x_i(t) <- x_i(t) + (sum_j W_ij y_j - y_i)(t - tau)

A worker applies the change of an average with its neighbors `delay` steps after
the exchange starts, so that no local step is lost, and the mean of the workers
is preserved. With tau = 0 it is gossip.

Assran et al., Stochastic gradient push for distributed deep learning, 2019.
arXiv:1811.10792, which overlaps push-sum instead of a symmetric W.
"""

from gossipjax.aggregator import Strategy, every, identity
from gossipjax.strategies.gossip import neighbor_mean
from gossipjax.topology import Topology, ring
from gossipjax.transforms.delayed import delayed
from gossipjax.transforms.flattened import flattened


def strategy(
  topology: Topology = ring, period: int = 1, delay: int = 1
) -> Strategy:
  """Args:
  topology: W.
  period: local steps between two exchanges, at least 1.
  delay: tau >= 0, local steps while an exchange is in flight.
  """
  mix = every(period, flattened(neighbor_mean(topology)))
  return Strategy(identity(), delayed(mix, delay))
