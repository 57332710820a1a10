"""Image data sets by name, with their classes and normalisation."""

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gossipjax.data import cifar, digits, files, idx
from gossipjax.data.published import SOURCES
from gossipjax.errors import UserError, nearest

Examples = tuple[np.ndarray, np.ndarray]


class Images(NamedTuple):
  """Attributes:
  train: images uint8[n, height, width, channels] and labels int32[n].
  test: the same, held out by the authors of the data set.
  classes: number of labels.
  white: the largest value of a pixel.
  mean: of each channel over the training set, as a fraction of white.
  std: the same for the standard deviation.
  """

  train: Examples
  test: Examples
  classes: int
  white: int
  mean: tuple[float, ...]
  std: tuple[float, ...]


# (classes, white, mean, std), computed from the training images (CIFAR-100:
# as published).
CHANNELS = {
  'digits': (10, 16, (0.30511,), (0.37503,)),
  'mnist': (10, 255, (0.13066,), (0.30811,)),
  'fashion_mnist': (10, 255, (0.28604,), (0.35302,)),
  'cifar10': (
    10,
    255,
    (0.49140, 0.48216, 0.44653),
    (0.24703, 0.24349, 0.26159),
  ),
  'cifar100': (
    100,
    255,
    (0.50708, 0.48655, 0.44092),
    (0.26733, 0.25644, 0.27615),
  ),
}


def load(name: str, data_dir: str | None = None) -> Images:
  """Reads a data set, once per process.

  Args:
    name: a key of CHANNELS.
    data_dir: where the files are looked for, as in `files.folder`.

  Raises:
    UserError: the name is unknown, or `files` refuses a file.
  """
  if name not in CHANNELS:
    raise UserError(
      f'task.name: there is no data set {name!r}{nearest(name, CHANNELS)}'
    )
  if name == 'digits':
    train, test = digits.load()
    return Images(train, test, *CHANNELS[name])
  return _read(name, files.folder(SOURCES[name], data_dir))


@functools.cache
def _read(name: str, place: Path) -> Images:
  found = files.contents(SOURCES[name], place)
  classes = CHANNELS[name][0]
  parse = _from_cifar if name.startswith('cifar') else _from_idx
  train, test = parse(found, place, classes)
  for array in (*train, *test):
    array.flags.writeable = False  # everybody gets the same arrays
  return Images(train, test, *CHANNELS[name])


def _from_idx(
  found: dict[str, bytes], place: Path, classes: int
) -> tuple[Examples, Examples]:
  del classes
  arrays = [idx.parse(data, str(place / name)) for name, data in found.items()]
  train_x, train_y, test_x, test_y = arrays
  return (
    (train_x[..., None], train_y.astype(np.int32)),
    (test_x[..., None], test_y.astype(np.int32)),
  )


def _from_cifar(
  found: dict[str, bytes], place: Path, classes: int
) -> tuple[Examples, Examples]:
  *train, test = (
    cifar.parse(data, str(place / name), classes)
    for name, data in found.items()
  )
  x, y = (np.concatenate(parts) for parts in zip(*train, strict=True))
  for labels, total in ((y, 50_000), (test[1], 10_000)):
    if np.any(np.bincount(labels, minlength=classes) != total // classes):
      raise UserError(
        f'{str(place)!r} holds no complete CIFAR-{classes}: there '
        f'are not {total // classes} images of every class; '
        f'{files.REPLACE}'
      )
  return (x, y), test
