"""The IDX format of MNIST: a header with the shape, then the bytes.

  0 0 8 d | d big-endian sizes, 4 bytes each | unsigned bytes, row-major

Source: yann.lecun.com/exdb/mnist.
"""

import math
import struct

import numpy as np

from gossipjax.data.files import REPLACE
from gossipjax.errors import UserError

UNSIGNED_BYTE = 8


def parse(data: bytes, name: str) -> np.ndarray:
  """Reads an IDX file of unsigned bytes.

  Args:
    data: the unpacked file.
    name: the file's name, for the message.

  Returns:
    uint8, in the shape the header says.

  Raises:
    UserError: it is no IDX file of bytes, or its length contradicts its header.
  """
  if len(data) < 4 or data[:3] != bytes([0, 0, UNSIGNED_BYTE]):
    raise UserError(
      f'{name!r} is not an IDX file of bytes: it begins with '
      f'{data[:4].hex()!r}, not 000008..; {REPLACE}'
    )
  start = 4 + 4 * data[3]
  if len(data) >= start:
    shape = struct.unpack(f'>{data[3]}I', data[4:start])
    if len(data) - start == math.prod(shape):
      return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
  raise UserError(
    f'{name!r} is truncated or corrupt: it has {len(data)} bytes, '
    f'which is not what its header says; {REPLACE}'
  )
