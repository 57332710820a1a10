"""Ways in which a disk, a program or a person damages a file."""

import pathlib
import random
from collections.abc import Callable


def flipped(data: bytes, rng: random.Random) -> bytes:
  """Returns the data with one bit flipped."""
  if not data:
    return b'\0'
  where = rng.randrange(len(data))
  bit = 1 << rng.randrange(8)
  return data[:where] + bytes([data[where] ^ bit]) + data[where + 1 :]


def _lines(change: Callable[[list[bytes], random.Random], None]):
  def damaged(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(True) or [b'\n']
    change(lines, rng)
    return b''.join(lines)

  return damaged


def _swap(lines: list[bytes], rng: random.Random) -> None:
  i, j = (rng.randrange(len(lines)) for _ in 'ab')
  lines[i], lines[j] = lines[j], lines[i]


def _double(lines: list[bytes], rng: random.Random) -> None:
  i = rng.randrange(len(lines))
  lines.insert(i, lines[i])


def _drop(lines: list[bytes], rng: random.Random) -> None:
  del lines[rng.randrange(len(lines))]


def _other_digit(data: bytes, rng: random.Random) -> bytes:
  places = [i for i, byte in enumerate(data) if chr(byte).isdigit()]
  if not places:
    return data + b'7'
  i = rng.choice(places)
  return data[:i] + bytes([rng.choice(b'0123456789')]) + data[i + 1 :]


Damage = Callable[[bytes, random.Random], bytes | None]  # None: deleted.
DAMAGES: dict[str, Damage] = {
  'flip': flipped,
  'cut': lambda data, rng: data[: rng.randrange(len(data) + 1)],
  'empty': lambda data, rng: b'',
  'delete': lambda data, rng: None,
  'garbage': lambda data, rng: data + rng.randbytes(30) + b'\n',
  'noise': lambda data, rng: rng.randbytes(len(data)),
  'deep': lambda data, rng: b'[' * 10**5,
  'swap': _lines(_swap),
  'double': _lines(_double),
  'drop': _lines(_drop),
  'digit': _other_digit,
}


def damage(path: pathlib.Path, rng: random.Random) -> str:
  """Damages a file in a random way; returns a description."""
  how = rng.choice(list(DAMAGES))
  damaged = DAMAGES[how](path.read_bytes(), rng)
  if damaged is None:
    path.unlink()
  else:
    path.write_bytes(damaged)
  return f'{how} of {path}'
