"""Delayed all-reduce: each step applies the mean gradient of an earlier one.

  g_i(t) <- 1/P sum_j g_j(t - tau)

and zero in the first tau steps. Workers do not wait for an all-reduce that
takes up to tau steps.
All workers hold the same parameters at every step.

Agarwal & Duchi, Distributed delayed stochastic optimization, 2011.
arXiv:1104.5525; Li et al., Pipe-SGD, 2018. arXiv:1811.03619
"""

from gossipjax.aggregator import Strategy, identity
from gossipjax.strategies.all_reduce import exact_mean
from gossipjax.transforms.delayed import stale


def strategy(delay: int = 1) -> Strategy:
  """Args:
  delay: tau >= 0, steps between a gradient and its use.
  """
  return Strategy(stale(exact_mean(), delay), identity())
