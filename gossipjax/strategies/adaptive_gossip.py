"""Event-triggered gossip: talk only after moving far enough.

  worker i takes part in an exchange when |x_i - s_i| > threshold |s_i|

where s_i are its parameters at its last exchange; an exchange needs both ends.

cf. Ho, Wu, Liu, Adaptive communication for distributed deep learning on
commodity GPU cluster, 2018; Singh et al., SPARQ-SGD, 2019. arXiv:1910.14280
"""

from typing import NamedTuple

import optax

from gossipjax.aggregator import (
  Aggregator,
  State,
  Strategy,
  Tree,
  identity,
  select,
)
from gossipjax.refusal import Refusal
from gossipjax.strategies.gossip import neighbor_mean
from gossipjax.topology import Topology, ring


class DriftState(NamedTuple):
  shared: Tree  # Parameters when this worker last took part.
  inner: State


def when_drifted(threshold: float, aggregator: Aggregator) -> Aggregator:
  """Holds a worker back until it has drifted."""
  if threshold < 0:
    raise Refusal(f'threshold is at least 0, got {threshold}.')

  def init(tree):
    return DriftState(shared=tree, inner=aggregator.init(tree))

  def update(tree, state, step, active=True):
    drift = optax.tree.norm(optax.tree.sub(tree, state.shared))
    active = active & (drift > threshold * optax.tree.norm(state.shared))
    tree, inner, sent = aggregator.update(tree, state.inner, step, active)
    return tree, DriftState(select(active, tree, state.shared), inner), sent

  return Aggregator(init, update)


def strategy(threshold: float = 0.01, topology: Topology = ring) -> Strategy:
  """`threshold`: relative l2 distance from the last shared parameters."""
  return Strategy(
      identity(), when_drifted(threshold, neighbor_mean(topology)))
