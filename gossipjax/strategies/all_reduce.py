"""AR-SGD: the exact mean of the gradients at every step.

  g <- 1/P sum_i g_i

Patarasuk & Yuan, Bandwidth optimal all-reduce algorithms for clusters of
workstations, 2009.
"""

import jax

from gossipjax import collectives
from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  identity,
  select,
  stateless,
)
from gossipjax.transforms.bucketed import with_granularity


def exact_mean() -> Aggregator:
  """The exact mean over the workers taking part.

  It divides the sum, which overflows above 65,504 in float16. Workers do not
  divide before they add, since small float16 gradients would become zero.
  """

  def update(tree, step, active):
    del step
    total, count, sent = collectives.all_reduce(tree, active)
    mean = jax.tree.map(lambda x: x / count, total)
    return select(active, mean, tree), sent

  return stateless(update)


@with_granularity
def strategy() -> Strategy:
  """Args:"""
  return Strategy(gradients=exact_mean(), parameters=identity())
