"""Local SGD: average the parameters every few steps, exactly.

  x_i <- 1/P sum_j x_j    every `period` steps

An asynchronous worker sends its progress to a server, as in `parameter_server`;
if all workers send at the same time, they receive the same mean.

Stich, Local SGD converges fast and communicates little, 2019. arXiv:1805.09767;
asynchronous: Liu et al., Asynchronous local-SGD training for language modeling,
2024. arXiv:2401.09135
"""

from gossipjax import async_exchange
from gossipjax.aggregator import Strategy, every, identity
from gossipjax.strategies.all_reduce import exact_mean
from gossipjax.strategies.parameter_server import push_pull


def strategy(period: int = 8) -> Strategy:
  """Args:
  period: local steps between two averages, at least 1.
  """
  return Strategy(
    identity(),
    every(period, exact_mean()),
    lambda workers: async_exchange.visits(every(period, push_pull())),
  )
