"""Top-k SGD: all-gather everyone's k largest entries, add up the union.

  a_i = g_i + e_i,    g <- mean_j top_k(a_j),    e_i <- a_i - top_k(a_i)

Stich et al., Sparsified SGD with memory, 2018. arXiv:1809.07599
"""

from gossipjax import compressors
from gossipjax.aggregator import Strategy, identity
from gossipjax.compressors.selections import Selection, exact
from gossipjax.strategies.compressed import compressed_mean
from gossipjax.transforms.bucketed import with_granularity
from gossipjax.transforms.warmup import with_warmup


@with_warmup
@with_granularity
def strategy(
  density: float = 0.01,
  selection: Selection = exact.selection(),
  dtype: str = 'float32',
) -> Strategy:
  """Args:
  density: k / n, above 0, at most 1: the share of the entries that a worker
    sends.
  selection: how the k largest are found, exactly or nearly.
  dtype: of the values sent, 'float32' or 'bfloat16'.
  """
  compressor = compressors.topk(density, selection, dtype)
  return Strategy(compressed_mean(compressor), identity())
