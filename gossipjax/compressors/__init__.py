"""Lossy codecs for flat vectors: what travels is as small as it claims.

The functions below are what `compressor.name` of a config can say.
"""

from gossipjax.compressors.compressor import Compressor, Message
from gossipjax.compressors.quantised import int8
from gossipjax.compressors.sparse import Sparse, topk, topk_int8

__all__ = ['Compressor', 'Message', 'Sparse', 'int8', 'topk', 'topk_int8']
