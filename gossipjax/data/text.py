"""Text as bytes; a model predicts the next byte.

The first nine tenths of a file are for training and the rest is held out, as in
nanoGPT. A folder has train.txt, valid.txt and test.txt.
"""

import functools
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gossipjax.data import files
from gossipjax.errors import UserError

BYTES = 256  # the vocabulary
PARTS = ('train.txt', 'valid.txt', 'test.txt')
TRAIN = 0.9
SHAKESPEARE_SHA256 = (
  '86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed'
)
SHAKESPEARE = files.PublishedData(
  'tinyshakespeare',
  'https://raw.githubusercontent.com/karpathy/char-rnn/'
  '6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/',
  {'input.txt': SHAKESPEARE_SHA256},
  {'input.txt': SHAKESPEARE_SHA256},
)


class Text(NamedTuple):
  """Attributes: uint8[bytes] each; `valid` is None in a single file."""

  train: np.ndarray
  valid: np.ndarray | None
  test: np.ndarray


def load(file: str, data_dir: str | None = None) -> Text:
  """Reads a text.

  Args:
    file: 'tinyshakespeare' (downloaded if it is not found), or the path of a
      file (plain, .gz or .xz) or of a folder with the three parts; looked for
      in `data_dir`, then in $GOSSIPJAX_DATA, then as given.
    data_dir: a folder.

  Raises:
    UserError: it is not found, cannot be read, or is empty.
  """
  if file == SHAKESPEARE.name:
    return _shakespeare(files.folder(SHAKESPEARE, data_dir))
  path = _find(file, data_dir)
  if not path.is_dir():
    return _cut(_read(path))
  return Text(*(_read(path / part) for part in PARTS))


def windows(data: np.ndarray, sequence: int) -> np.ndarray:
  """Cuts a text into rows: inputs are row[:-1], targets row[1:].

  Rows overlap by one byte, so every byte but the first is a target once; bytes
  at the end that do not fill a row are left out.

  Args:
    data: uint8[bytes].
    sequence: bytes a model reads at once.

  Returns:
    uint8[(bytes - 1) // sequence, sequence + 1].

  Raises:
    UserError: sequence < 1, or the text is too short for one row.
  """
  if not 1 <= sequence < len(data):
    raise UserError(
      f'task.sequence must be between 1 and {len(data) - 1}, one '
      f'less than the bytes of the text, got {sequence}.'
    )
  every = np.lib.stride_tricks.sliding_window_view(data, sequence + 1)
  return every[::sequence].copy()


@functools.cache
def _shakespeare(place: Path) -> Text:
  data = files.contents(SHAKESPEARE, place)['input.txt']
  return _cut(np.frombuffer(data, np.uint8))


def _cut(data: np.ndarray) -> Text:
  end = int(len(data) * TRAIN)
  return Text(data[:end], None, data[end:])


def _find(file: str, data_dir: str | None) -> Path:
  roots = [
    root for root in (data_dir, os.environ.get(files.VARIABLE), '.') if root
  ]
  paths = [os.path.join(*map(os.path.expanduser, (r, file))) for r in roots]
  found = next((path for path in paths if os.path.exists(path)), None)
  if not found:
    raise UserError(
      f'task.file: there is no {file!r} in '
      f'{" or ".join(map(repr, roots))}; give the path of a text, '
      f"or 'tinyshakespeare'."
    )
  return Path(found)


def _read(path: Path) -> np.ndarray:
  if not path.is_file():
    raise UserError(
      f'task.file: {str(path)!r} is missing; a folder needs {", ".join(PARTS)}.'
    )
  data = np.frombuffer(files.unpack(path), np.uint8)
  if not len(data):
    raise UserError(f'task.file: {str(path)!r} is empty.')
  return data
