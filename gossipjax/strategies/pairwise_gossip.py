"""Pairwise gossip: workers meet in random pairs and both take the average.

  x_i, x_j <- (x_i + x_j) / 2

It is the symmetric form of Jin et al.'s gossip; with one pair per round it is
AD-PSGD. The mean of the workers is preserved.

Lian et al., Asynchronous decentralized parallel stochastic gradient descent,
2018. arXiv:1710.06952; Boyd et al., Randomized gossip algorithms, 2006.
"""

from gossipjax import async_exchange
from gossipjax.aggregator import Strategy, every, identity
from gossipjax.strategies.gossip import neighbor_mean
from gossipjax.topology import complete, random_matching
from gossipjax.transforms.flattened import flattened
from gossipjax.transforms.nesterov import without_look_ahead


def strategy(
  period: int = 1, look_ahead: float = 0.0, seed: int = 0, schedule: int = 16
) -> Strategy:
  """Args:
  period: local steps between two exchanges, at least 1.
  look_ahead: momentum whose Nesterov look-ahead is not exchanged, as in
    `pull_gossip`; 0 exchanges it, as AD-PSGD does.
  seed: random seed of the pairs, the same on all workers.
  schedule: rounds of pairs before they repeat.
  """

  def exchange(pairs):
    mean = every(period, flattened(neighbor_mean(pairs)))
    return without_look_ahead(look_ahead, mean)

  return Strategy(
    identity(),
    exchange(random_matching(seed, schedule)),
    lambda workers: async_exchange.meets(
      exchange(async_exchange.pair), async_exchange.neighbors(complete, workers)
    ),
  )
