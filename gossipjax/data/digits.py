"""Handwritten digits of 8x8 pixels: real data that needs no download.

1,797 images of UCI's optical recognition data set, which scikit-learn
contains. Alpaydin and Kaynak, 1998. archive.ics.uci.edu/dataset/80
"""

import gzip
from importlib import metadata

import numpy as np

TRAIN = 1_500  # The last 297 are held out, 27 to 33 of each class.
Examples = tuple[np.ndarray, np.ndarray]


def load() -> tuple[Examples, Examples]:
  """Train and test: images uint8[n, 8, 8, 1] in 0..16, labels int32[n]."""
  # The file of sklearn's load_digits; importing sklearn takes two seconds.
  package = metadata.distribution('scikit-learn')
  path = package.locate_file('sklearn/datasets/data/digits.csv.gz')
  with gzip.open(str(path), 'rt') as file:
    table = np.loadtxt(file, np.uint8, delimiter=',')
  x, y = table[:, :-1].reshape(-1, 8, 8, 1), table[:, -1].astype(np.int32)
  return (x[:TRAIN], y[:TRAIN]), (x[TRAIN:], y[TRAIN:])
