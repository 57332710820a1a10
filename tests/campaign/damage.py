"""Ways in which a disk, a program or a person damages a file."""

import pathlib
import random
from collections.abc import Callable


def flipped(data: bytes, chance: random.Random) -> bytes:
  """Returns the data with one bit flipped."""
  if not data:
    return b'\0'
  where = chance.randrange(len(data))
  bit = 1 << chance.randrange(8)
  return data[:where] + bytes([data[where] ^ bit]) + data[where + 1 :]


def _lines(change: Callable[[list[bytes], random.Random], None]):
  def damaged(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(True) or [b'\n']
    change(lines, chance)
    return b''.join(lines)

  return damaged


def _swap(lines: list[bytes], chance: random.Random) -> None:
  i, j = (chance.randrange(len(lines)) for _ in 'ab')
  lines[i], lines[j] = lines[j], lines[i]


def _double(lines: list[bytes], chance: random.Random) -> None:
  i = chance.randrange(len(lines))
  lines.insert(i, lines[i])


def _drop(lines: list[bytes], chance: random.Random) -> None:
  del lines[chance.randrange(len(lines))]


def _other_digit(data: bytes, chance: random.Random) -> bytes:
  places = [i for i, byte in enumerate(data) if chr(byte).isdigit()]
  if not places:
    return data + b'7'
  i = chance.choice(places)
  return data[:i] + bytes([chance.choice(b'0123456789')]) + data[i + 1 :]


Damage = Callable[[bytes, random.Random], bytes | None]  # None: deleted.
DAMAGES: dict[str, Damage] = {
  'flip': flipped,
  'cut': lambda data, chance: data[: chance.randrange(len(data) + 1)],
  'empty': lambda data, chance: b'',
  'delete': lambda data, chance: None,
  'garbage': lambda data, chance: data + chance.randbytes(30) + b'\n',
  'noise': lambda data, chance: chance.randbytes(len(data)),
  'deep': lambda data, chance: b'[' * 10**5,
  'swap': _lines(_swap),
  'double': _lines(_double),
  'drop': _lines(_drop),
  'digit': _other_digit,
}


def damage(path: pathlib.Path, chance: random.Random) -> str:
  """Damages a file; returns how."""
  how = chance.choice(list(DAMAGES))
  left = DAMAGES[how](path.read_bytes(), chance)
  if left is None:
    path.unlink()
  else:
    path.write_bytes(left)
  return f'{how} of {path}'
