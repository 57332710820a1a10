"""Examples that are read when needed, from files larger than device memory.

Folders of images, memory-mapped arrays and files of tokens.
"""

import abc
import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from gossipjax.errors import UserError, nearest, require

Tree = Any
SUFFIXES = ('.jpg', '.jpeg', '.png', '.bmp', '.webp')


class Source(abc.ABC):
  """Examples that are read by index.

  Attributes:
    labels: int[examples], for splits that need them; None without.
  """

  labels: np.ndarray | None = None

  @abc.abstractmethod
  def __len__(self) -> int:
    """How many examples there are."""

  @abc.abstractmethod
  def __getitem__(self, index: int) -> Tree:
    """One example: a tree of NumPy arrays without an axis of examples."""


class ImageFolder(Source):
  """Images of a folder with a subfolder for each class, as ImageNet has it.

  An example is (uint8[size, size, 3], int32[] class): the middle of an image
  scaled so that its shorter side is `size`. Classes are names of subfolders
  in alphabetical order; images are in a random order that is always the same.

  Args:
    folder: with a subfolder for each class.
    size: height and width of an example, in pixels.

  Raises:
    UserError: there is no image, or Pillow is not installed.
  """

  def __init__(self, folder: str | pathlib.Path, size: int):
    require('data')
    root = pathlib.Path(folder)
    self.classes = sorted(p.name for p in root.glob('[!.]*') if p.is_dir())
    images = [
      (path, i)
      for i, name in enumerate(self.classes)
      for path in sorted((root / name).rglob('*'))
      if path.suffix.lower() in SUFFIXES
    ]
    if not images:
      raise UserError(
        f'{root} has no images; it takes a subfolder for each class, with '
        f'files of {", ".join(SUFFIXES)}.'
      )
    # Shuffled: the last may be held out for validation and need all classes.
    order = np.random.default_rng(0).permutation(len(images))
    images = [images[i] for i in order]
    self._paths = [path for path, _ in images]
    self.labels = np.array([i for _, i in images], np.int32)
    self._size = size

  def __len__(self) -> int:
    return len(self._paths)

  def __getitem__(self, index: int) -> Tree:
    from PIL import Image, ImageOps

    try:
      with Image.open(path := self._paths[index]) as image:
        if image.mode[0] in 'IF':  # Else values above 255 become white.
          raise UserError(
            f'{path} has {image.mode} pixels; save 8 bits per channel.'
          )
        cut = ImageOps.fit(image.convert('RGB'), (self._size, self._size))
    except (OSError, ValueError, SyntaxError) as error:
      raise UserError(f'{path} is damaged ({error}); remove it.') from error
    return np.asarray(cut, np.uint8), self.labels[index]


class Arrays(Source):
  """Arrays [examples, ...], such as memory-mapped ones."""

  def __init__(self, *arrays: np.ndarray):
    if not arrays or any(np.ndim(x) < 1 for x in arrays):
      raise UserError(
        'A source needs arrays [examples, ...], at least one; a single number '
        'has no axis of examples.'
      )
    sizes = {len(x) for x in arrays}
    if len(sizes) != 1:
      raise UserError(
        f'The arrays have different numbers of examples: {sorted(sizes)}.'
      )
    self._arrays = arrays
    last = arrays[-1]
    if len(arrays) > 1 and last.ndim == 1 and last.dtype.kind in 'iu':
      self.labels = np.asarray(last)

  def __len__(self) -> int:
    return len(self._arrays[0])

  def __getitem__(self, index: int) -> Tree:
    example = tuple(np.asarray(x[index]) for x in self._arrays)
    return example if len(example) > 1 else example[0]


def npy(*paths: str | pathlib.Path) -> Source:
  """Arrays of .npy files, mapped into memory; an example is a row of each. The
  last of several has the labels for a `split`, if it is int[examples].

  Raises:
    UserError: a file cannot be read, or is an .npz.
  """
  arrays = [_read(path, mmap_mode='r') for path in paths]
  for path, array in zip(paths, arrays, strict=True):
    if not isinstance(array, np.ndarray):
      raise UserError(
        f'{path} is an .npz of {", ".join(array)}; read it with gj.npz(path, '
        'names).'
      )
  return Arrays(*arrays)


def npz(path: str | pathlib.Path, names: Sequence[str]) -> Source:
  """Arrays of an .npz file, read into memory; an example is a row of each of
  `names`, otherwise as `npy`.

  Raises:
    UserError: the file cannot be read, is an .npy, or lacks a name.
  """
  loaded = _read(path)
  if isinstance(loaded, np.ndarray):
    raise UserError(f'{path} is a file of one array; read it with gj.npy.')
  if missing := [name for name in names if name not in loaded]:
    raise UserError(
      f'{path} has no array {missing[0]!r}{nearest(missing[0], loaded)}'
    )
  try:
    arrays = {name: loaded[name] for name in names}
  except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
    raise UserError(f'{path} cannot be read ({error}).') from error
  for name, array in arrays.items():
    if not array.ndim:
      raise UserError(
        f'{path}: {name} is a single number; name arrays [examples, ...].'
      )
  return Arrays(*arrays.values())


def _read(path: str | pathlib.Path, **options: Any) -> Any:
  try:
    return np.load(path, **options)
  except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
    raise UserError(f'{path} cannot be read ({error}).') from error


class Tokens(Source):
  """Windows of a file of tokens, uint16, as nanoGPT writes them.

  An example is int32[sequence + 1]; inputs are row[:-1], targets row[1:].

  Args:
    path: of the file.
    sequence: tokens that a model reads at once.

  Raises:
    UserError: the file is missing or shorter than a window, or a window has no
      token.
  """

  def __init__(self, path: str | pathlib.Path, sequence: int):
    if sequence < 1:
      raise UserError(f'A window has at least 1 token, got {sequence}.')
    try:
      self._tokens = np.memmap(path, np.uint16, mode='r')
    except (OSError, ValueError) as error:
      raise UserError(f'{path} cannot be read ({error}).') from error
    self._window = sequence + 1
    if len(self) < 1:
      raise UserError(f'{path} is shorter than {self._window} tokens.')

  def __len__(self) -> int:
    return len(self._tokens) // self._window

  def __getitem__(self, index: int) -> Tree:
    first = index * self._window
    return np.int32(self._tokens[first : first + self._window])
