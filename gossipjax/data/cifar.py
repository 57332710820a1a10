"""CIFAR's binary version: a sequence of records of labels and pixels.

  CIFAR-10:   label            | 1,024 red | 1,024 green | 1,024 blue
  CIFAR-100:  coarse, fine     | the same

Krizhevsky, 2009. www.cs.toronto.edu/~kriz/cifar.html
"""

import numpy as np

from gossipjax.data.files import REPLACE
from gossipjax.errors import UserError

SIDE, CHANNELS = 32, 3


def parse(
  data: bytes, name: str, classes: int
) -> tuple[np.ndarray, np.ndarray]:
  """Reads one file of the binary version.

  Args:
    data: the unpacked file.
    name: the file's name, for the message.
    classes: 10 or 100; of CIFAR-100's two labels the fine one is read.

  Returns:
    images uint8[n, 32, 32, 3] and labels int32[n].

  Raises:
    UserError: not a whole number of records, or a label out of range.
  """
  labels = 2 if classes == 100 else 1
  record = labels + SIDE * SIDE * CHANNELS
  if not data or len(data) % record:
    raise UserError(
      f'{name!r} is truncated or corrupt: {len(data)} bytes are '
      f'not a whole number of records of {record}; {REPLACE}'
    )
  rows = np.frombuffer(data, np.uint8).reshape(-1, record)
  y = rows[:, labels - 1].astype(np.int32)
  if y.max() >= classes:
    raise UserError(
      f'{name!r} is corrupt: it has a label {y.max()} though there '
      f'are {classes} classes; {REPLACE}'
    )
  planes = rows[:, labels:].reshape(-1, CHANNELS, SIDE, SIDE)
  return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), y
