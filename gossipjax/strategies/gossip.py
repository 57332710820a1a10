"""D-PSGD: average the parameters of neighbors after every local step.

  x_i <- sum_j W_ij x_j

A worker that does not wait averages with one random neighbor (AD-PSGD).

Lian et al., Can decentralized algorithms outperform centralized algorithms?,
2017. arXiv:1705.09056
"""

import functools

import jax
from jax import lax

from gossipjax import async_exchange, collectives
from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  every,
  identity,
  stateless,
)
from gossipjax.errors import UserError
from gossipjax.topology import Round, Topology, is_symmetric, ring
from gossipjax.traffic import SILENCE
from gossipjax.transforms.flattened import flattened


def _mix(tree, active, exchanges: Round):
  mixed, sent = tree, SILENCE
  for weight, source in exchanges:
    theirs, cost = collectives.swap(tree, source, active)
    mixed = jax.tree.map(
      lambda m, t, x: m + weight * (t - x), mixed, theirs, tree
    )
    sent += cost
  return mixed, sent


def neighbor_mean(topology: Topology) -> Aggregator:
  """One multiplication with W; `step` cycles through the topology's rounds.

  Raises:
    UserError: workers may be absent and a round is not symmetric, so that the
      mean would change.
  """

  def update(tree, step, active):
    n = lax.axis_size(collectives.axis())
    rounds = topology(n)
    if active is not True and not all(is_symmetric(r, n) for r in rounds):
      raise UserError(
        'A directed topology needs every worker in every round; ring, '
        'hypercube and complete do not.'
      )
    mix = [functools.partial(_mix, tree, active, r) for r in rounds]
    return lax.switch(step % len(rounds), mix)

  return stateless(update)


def strategy(topology: Topology = ring, period: int = 1) -> Strategy:
  """Args:
  topology: of the neighbors.
  period: local steps between two exchanges, at least 1.
  """

  def exchange(topology):
    return every(period, flattened(neighbor_mean(topology)))

  return Strategy(
    identity(),
    exchange(topology),
    lambda workers: async_exchange.meets(
      exchange(async_exchange.pair), async_exchange.neighbors(topology, workers)
    ),
  )
