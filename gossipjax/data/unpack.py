"""Unpacks a file in memory, and stops where it grows beyond all data."""

import lzma
import zlib
from collections.abc import Callable
from typing import Any

# Text of one letter aside, no data set here shrinks to less than a fiftieth.
MOST_TIMES = 200  # The packed size.
LEAST = 2**24  # Bytes that are always allowed.
_XZ_MEMORY = 2**27  # Bytes that xz may ask for; level 9 takes 65 MB.


def unpacked(data: bytes, suffix: str) -> bytes:
  """The contents of a file.

  Args:
    data: the packed bytes.
    suffix: of its name: '.gz', '.xz', or another for a file that is not packed.

  Raises:
    EOFError: it is truncated.
    OSError: it grows beyond MOST_TIMES of its size, or is corrupt.
    zlib.error, lzma.LZMAError: it is corrupt.
  """
  makers: dict[str, Callable[[], Any]] = {
    '.gz': lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
    '.xz': lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY),
  }
  if suffix not in makers:
    return data
  most = max(LEAST, MOST_TIMES * len(data))
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
      f'it unpacks to more than {MOST_TIMES} times its size, or {most:,} bytes'
    )
  if not stream.eof:
    raise EOFError('it ends before its contents do')
  return found
