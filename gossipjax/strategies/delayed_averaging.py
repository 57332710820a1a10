"""Delayed averaging: workers keep computing while the average is in flight.

  y_i = x_i + the changes in flight to worker i
  x_i(t) <- x_i(t) + (1/P sum_j y_j - y_i)(t - tau)

A worker applies the change of an average `delay` steps after the average
starts, so that no local step is lost, and the mean of the workers is preserved.
With tau = 0 it is local SGD. With SGD and an average at every step, each
worker's own gradient is replaced by the mean gradient tau steps later, as
published.

Zhu et al., Delayed gradient averaging: tolerate the communication latency for
federated learning, 2021; Sun et al., CO2: efficient distributed training with
full communication-computation overlap, 2024. arXiv:2401.16265
"""

from gossipjax.aggregator import Strategy, every, identity
from gossipjax.strategies.all_reduce import exact_mean
from gossipjax.transforms.delayed import delayed


def strategy(period: int = 1, delay: int = 1) -> Strategy:
  """Args:
  period: local steps between two averages, at least 1.
  delay: tau >= 0, local steps while an average is in flight.
  """
  return Strategy(identity(), delayed(every(period, exact_mean()), delay))
