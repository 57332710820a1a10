"""Top-k SGD: all-gather everyone's k largest entries, add up the union.

  a_i = g_i + e_i,    g <- mean_j top_k(a_j),    e_i <- a_i - top_k(a_i)

Stich et al., Sparsified SGD with memory, 2018. arXiv:1809.07599
"""

from gossipjax import compressors
from gossipjax.aggregator import Strategy, identity
from gossipjax.compressors.selections import Selection, exact
from gossipjax.strategies.compressed import compressed_mean


def strategy(density: float = 0.01, selection: Selection = exact.selection(),
             dtype: str = 'float32') -> Strategy:
  """`density`: k / n, the part of the entries that travels; `selection`: of the
  k largest, or nearly; `dtype`: of what travels, float32 or bfloat16."""
  return Strategy(compressed_mean(
      compressors.topk(density, selection, dtype)), identity())
