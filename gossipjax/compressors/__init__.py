"""Lossy codecs: each encodes a vector as a message of known size.

Every function exported here that returns a Compressor is a `compressor.name` of
a config.

compressor      the type Compressor; none
sparse          topk, topk_int8: few entries with their indices
thresholded     threshold: the entries above a given threshold
random_indices  random_k: few entries whose indices follow from a seed
cosines         encodes the cosine transform of blocks instead of entries
chunked         chunk_topk: few entries of each chunk, in few bits
quantised       int8, sign, two_bit: every entry in fewer bits
low_bit         linear, e3m0: every entry in 2, 4 or 8 bits, a scale per block
stochastic      qsgd, terngrad: fewer bits, rounded at random without bias
selections      how the k largest entries are found: one file per method
metrics         scores of entries, other than their magnitude
largest         finds the k largest magnitudes, exactly, in about one pass
bisection       finds a threshold that a given number of magnitudes reach
merging         adds sparse messages whose indices ascend
layers          codecs of one weight of a network, cut into shares for servers
rows            the rows of a matrix with the largest magnitude, with a bitmap
bitmap          sets of indices, one bit each
packing         codes of a few bits, several to a byte; numbers in few bytes
"""

from gossipjax.compressors.chunked import chunk_topk
from gossipjax.compressors.compressor import Compressor, Message, none
from gossipjax.compressors.low_bit import e3m0, linear
from gossipjax.compressors.quantised import int8, sign, two_bit
from gossipjax.compressors.random_indices import random_k
from gossipjax.compressors.sparse import Sparse, topk, topk_int8
from gossipjax.compressors.stochastic import qsgd, terngrad
from gossipjax.compressors.thresholded import threshold

__all__ = [
  'Compressor',
  'Message',
  'Sparse',
  'chunk_topk',
  'e3m0',
  'int8',
  'linear',
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
