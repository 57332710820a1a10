"""Picture data sets by name, with their classes and normalisation."""

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gossipjax.data import cifar, digits, files, idx
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


IDX = (
  'train-images-idx3-ubyte',
  'train-labels-idx1-ubyte',
  't10k-images-idx3-ubyte',
  't10k-labels-idx1-ubyte',
)
TORONTO = 'https://www.cs.toronto.edu/~kriz/'
# MD5 of the .gz and .tar.gz: as torchvision and the authors' pages give them.
# MD5 of the contents: of the unpacked official files. CIFAR-100's were found
# in one place only, too few to turn a user's copy away; its form is checked.
SOURCES = {
  'mnist': files.Source(
    'mnist',
    'https://ossci-datasets.s3.amazonaws.com/mnist/',
    {
      f'{IDX[0]}.gz': 'f68b3c2dcbeaaa9fbdd348bbdeb94873',
      f'{IDX[1]}.gz': 'd53e105ee54ea40749a09fcbcd1e9432',
      f'{IDX[2]}.gz': '9fb629c4189551a2d022fa330f9573f3',
      f'{IDX[3]}.gz': 'ec29112dd5afa0611ce80d1b7f02629c',
    },
    {
      IDX[0]: '6bbc9ace898e44ae57da46a324031adb',
      IDX[1]: 'a25bea736e30d166cdddb491f175f624',
      IDX[2]: '2646ac647ad5339dbf082846283269ea',
      IDX[3]: '27ae3e4e09519cfbb04c329615203637',
    },
    ('MNIST/raw',),
  ),
  'fashion_mnist': files.Source(
    'fashion_mnist',
    'http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/',
    {
      f'{IDX[0]}.gz': '8d4fb7e6c68d591d4c3dfef9ec88bf0d',
      f'{IDX[1]}.gz': '25c81989df183df01b3e8a0aad5dffbe',
      f'{IDX[2]}.gz': 'bef4ecab320f06d8554ea6380940ec79',
      f'{IDX[3]}.gz': 'bb300cfdad3c16e7a12a480ee83cd310',
    },
    {
      IDX[0]: 'f4a8712d7a061bf5bd6d2ca38dc4d50a',
      IDX[1]: '9018921c3c673c538a1fc5bad174d6f9',
      IDX[2]: '8181f5470baa50b63fa0f6fddb340f0a',
      IDX[3]: '15d484375f8d13e6eb1aabb0c3f46965',
    },
    ('FashionMNIST/raw',),
  ),
  'cifar10': files.Source(
    'cifar10',
    TORONTO,
    {'cifar-10-binary.tar.gz': 'c32a1d4ab5d03f1284b67883e8d87530'},
    {
      'data_batch_1.bin': '5dd7e06a14cb22eb9f671a540d1b7c25',
      'data_batch_2.bin': '5ea93a67294ea407fff1d09f752e9692',
      'data_batch_3.bin': '942cd6a4bcdd0dd3c604fbe906cb4421',
      'data_batch_4.bin': 'ae636b3ba5c66a11e91e8cb52e771fcb',
      'data_batch_5.bin': '53f37980c15c3d472c316c40844f3f0d',
      'test_batch.bin': '803d5f7f4d78ea53de84dbe85f74fb6d',
    },
    ('cifar-10-batches-bin',),
  ),
  'cifar100': files.Source(
    'cifar100',
    TORONTO,
    {'cifar-100-binary.tar.gz': '03b5dce01913d631647c71ecec9e9cb8'},
    {'train.bin': '', 'test.bin': ''},
    ('cifar-100-binary',),
  ),
}
# Of the training pictures, computed from them (CIFAR-100: as published).
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
    data_dir: where it is looked for, as in `files.folder`.

  Raises:
    UserError: an unknown name, or what `files` refuses.
  """
  if name not in CHANNELS:
    raise UserError(
      f'task.name: there is no data set {name!r}{nearest(name, CHANNELS)}'
    )
  if name == 'digits':
    return Images(*digits.load(), *CHANNELS[name])
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
        f'are not {total // classes} pictures of every class; '
        f'delete it to have it downloaded anew'
      )
  return (x, y), test
