"""Unpacks files in memory, and stops at sizes that no data set here has."""

import gzip
import lzma
import zlib
from collections.abc import Callable
from typing import Any

# No data set here shrinks to less than a fiftieth; text of one letter does.
MAX_RATIO = 200  # The unpacked size, as a multiple of the packed one.
FREE_BYTES = 2**24  # Bytes that are always allowed.
MAX_BYTES = 2**28  # Never exceeded; the largest data set has 184 MB.
_XZ_MEMORY = 2**27  # Bytes that xz may ask for; level 9 takes 65 MB.


def unpacked(data: bytes, suffix: str) -> bytes:
  """The contents of a file.

  Args:
    data: the packed bytes.
    suffix: of its name: '.gz', '.xz', or another for a file that is not packed.

  Raises:
    EOFError: it is truncated.
    OSError: it grows beyond MAX_BYTES, or beyond both FREE_BYTES and MAX_RATIO
      times its size; or it is corrupt.
    zlib.error, lzma.LZMAError: it is corrupt.
  """
  makers: dict[str, Callable[[], Any]] = {
    '.gz': lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
    '.xz': lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY),
  }
  if suffix not in makers:
    return data
  most = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * len(data)))
  parts: list[bytes] = []
  while data:  # One stream after the other.
    stream = makers[suffix]()
    parts.append(_first(stream, data, most - sum(map(len, parts))))
    data = stream.unused_data.lstrip(b'\0')
  return b''.join(parts)


def _first(stream: Any, data: bytes, most: int) -> bytes:
  found = stream.decompress(data, most + 1)
  if len(found) > most:
    raise OSError(
      f'it unpacks to more than {MAX_RATIO} times its size, or {most:,} bytes'
    )
  if not stream.eof:
    raise EOFError('it ends before its contents do')
  return found


class Bounded:
  """A file of which at most MAX_BYTES bytes may be read."""

  def __init__(self, file: gzip.GzipFile):
    self._file, self._left = file, MAX_BYTES

  def read(self, size: int) -> bytes:
    """Reads at most `size` bytes; raises an OSError beyond MAX_BYTES in all."""
    found = self._file.read(size)
    self._left -= len(found)
    if self._left < 0:
      raise OSError(f'it unpacks to more than {MAX_BYTES:,} bytes')
    return found
