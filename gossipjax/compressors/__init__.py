"""Lossy codecs for flat vectors: what travels is as small as it claims.

The functions below are what `compressor.name` of a config can say.
"""

from gossipjax.compressors.chunked import chunk_topk
from gossipjax.compressors.compressor import Compressor, Message, none
from gossipjax.compressors.quantised import int8, sign, two_bit
from gossipjax.compressors.random_indices import random_k
from gossipjax.compressors.sparse import Sparse, threshold, topk, topk_int8
from gossipjax.compressors.stochastic import qsgd, terngrad

__all__ = [
  'Compressor',
  'Message',
  'Sparse',
  'chunk_topk',
  'int8',
  'none',
  'qsgd',
  'random_k',
  'sign',
  'terngrad',
  'threshold',
  'topk',
  'topk_int8',
  'two_bit',
]
