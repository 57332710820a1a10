"""Top-k SGD: all-gather everyone's k largest entries, add up the union.

  a_i = g_i + e_i,    g <- mean_j top_k(a_j),    e_i <- a_i - top_k(a_i)

Stich et al., Sparsified SGD with memory, 2018. arXiv:1809.07599
"""

from gossipjax import compressors
from gossipjax.aggregator import Strategy, identity
from gossipjax.compressors.selections import Selection, exact
from gossipjax.strategies.compressed import compressed_mean
from gossipjax.transforms.bucketed import bucketed


def strategy(
  density: float = 0.01,
  selection: Selection = exact.selection(),
  dtype: str = 'float32',
  granularity: str | int = 'model',
) -> Strategy:
  """Args:
  density: k / n, the part of the entries that travels.
  selection: of the k largest, or nearly.
  dtype: of the values that travel, float32 or bfloat16.
  granularity: model, layer, or the bytes of a bucket.
  """
  compressor = compressors.topk(density, selection, dtype)
  return Strategy(
    bucketed(granularity, lambda bucket: compressed_mean(compressor)),
    identity(),
  )
