"""Local SGD: average the parameters every few steps, exactly.

  x_i <- 1/P sum_j x_j    every `period` steps

Stich, Local SGD converges fast and communicates little, 2019. arXiv:1805.09767
"""

from gossipjax.aggregator import Strategy, every, identity
from gossipjax.strategies.all_reduce import exact_mean


def strategy(period: int = 8) -> Strategy:
  """`period`: local steps between two averages."""
  return Strategy(identity(), every(period, exact_mean()))
