"""QSGD: unbiased random rounding, without a residual.

  g <- 1/P sum_i Q(g_i),    E Q(g) = g

It takes unbiased compressors only: qsgd, terngrad (unbiased except for what it
clips) or random_k(unbiased=True). Their error can exceed the gradient, so that
error feedback would diverge. The mean of the errors over steps is zero.

Alistarh et al., QSGD: communication-efficient SGD via gradient quantization and
encoding, 2017. arXiv:1610.02132
"""

import jax
from jax import lax

from gossipjax import collectives, compressors
from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  identity,
  select,
  stateless,
)
from gossipjax.errors import UserError
from gossipjax.flatten import ravel
from gossipjax.transforms.bucketed import with_granularity

NOT_CONSERVED = {'gradients': 'Rounding errors cancel on average only.'}


def unbiased_mean(
  compressor: compressors.Compressor, seed: int = 0
) -> Aggregator:
  """The mean of compressed trees; each worker draws its own random numbers."""

  def update(tree, step, active):
    flat, unravel = ravel(tree)
    me = lax.axis_index(collectives.axis())
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), me), step)
    messages, count, sent = collectives.all_gather(
      compressor.compress(flat, key), active
    )
    mean = compressor.mean(messages, flat.size, count)
    return select(active, unravel(mean.astype(flat.dtype)), tree), sent

  return stateless(update)


@with_granularity
def strategy(
  compressor: compressors.Compressor = compressors.qsgd(), seed: int = 0
) -> Strategy:
  """Args:
  compressor: Q, unbiased.
  seed: random seed of Q.
  """
  if not compressor.unbiased:
    raise UserError(
      'Strategy qsgd takes an unbiased compressor: qsgd, terngrad or random_k '
      'with unbiased=True. Strategy compressed takes others, and feeds back '
      'their error.'
    )
  return Strategy(unbiased_mean(compressor, seed), identity())
