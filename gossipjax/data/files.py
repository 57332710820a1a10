"""Finds, unpacks and verifies the files of a data set.

A file is verified by its contents: the SHA-256 is that of the unpacked bytes.
A copy that was compressed again is as good as the published one. Nothing here
is ever unpickled or extracted to disk.
"""

import functools
import gzip
import hashlib
import lzma
import os
import tarfile
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast

from gossipjax.data import download
from gossipjax.data.unpack import Bounded, unpacked
from gossipjax.errors import UserError

VARIABLE = 'GOSSIPJAX_DATA'
SUFFIXES = ('', '.gz', '.xz')
BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError)


class PublishedData(NamedTuple):
  """A published data set.

  Attributes:
    name: the data set, and the folder in which it is looked for.
    url: where it is published; a name in `downloads` is appended.
    downloads: name of a published file -> its SHA-256, as it is downloaded.
    files: name of an unpacked file -> SHA-256 of its contents.
    folders: other names that its folder goes by.
  """

  name: str
  url: str
  downloads: Mapping[str, str]
  files: Mapping[str, str]
  folders: tuple[str, ...] = ()


# What to do about a file that is not what was published.
REPLACE = (
  'replace it by the published file, or move it away (it may belong to another '
  'data set); without data.dir it is then downloaded again.'
)


def folder(source: PublishedData, data_dir: str | None = None) -> Path:
  """The folder that holds a data set; downloads it if there is none.

  Args:
    source: the data set.
    data_dir: the data set's folder, or the one that folder is in. If None,
      $GOSSIPJAX_DATA is searched, and what is not there is downloaded.

  Raises:
    UserError: `data_dir` is given and the data set is not there, or it cannot
      be downloaded.
  """
  root = data_dir or os.environ.get(VARIABLE)
  for name in (source.name, *source.folders, '.') if root else ():
    place = Path(root).expanduser() / name
    if _present(place, source.files) or _archive(place, source):
      return place
  if data_dir:
    raise UserError(
      f'data.dir: there is no {next(iter(source.files))!r} (plain, .gz or '
      f'.xz) in {data_dir!r} or its folder {source.name!r}; put the files of '
      f'{source.name} there, or leave data.dir out to download them.'
    )
  return download.fetch(source.name, source.url, source.downloads)


def contents(source: PublishedData, place: Path) -> dict[str, bytes]:
  """The unpacked bytes of every file of a data set, verified.

  Args:
    source: the data set.
    place: the folder that holds its files or the archive of them.

  Returns:
    name of the file -> its bytes, in the order of `source.files`.

  Raises:
    UserError: a file is missing, truncated, corrupt or not the published one.
  """
  archive = _archive(place, source)
  if archive and not _present(place, source.files):
    found = _members(archive, list(source.files))
  else:
    read = functools.partial(_read, place)
    with ThreadPoolExecutor() as pool:  # lzma and zlib release the GIL
      found = dict(zip(source.files, pool.map(read, source.files), strict=True))
  for name, (path, data) in found.items():
    _verify(path, data, source.name, source.files[name])
  return {name: data for name, (_, data) in found.items()}


def _present(place: Path, names: Mapping[str, str]) -> bool:
  return any(
    (place / (name + suffix)).is_file() for name in names for suffix in SUFFIXES
  )


def _archive(place: Path, source: PublishedData) -> Path | None:
  paths = (place / name for name in source.downloads)
  return next(
    (
      path
      for path in paths
      if path.suffixes[-2:] == ['.tar', '.gz'] and path.is_file()
    ),
    None,
  )


def unpack(path: Path) -> bytes:
  """The contents of a file; its suffix says whether it is .gz, .xz or plain.

  Raises:
    UserError: it is missing, truncated, corrupt, or not what its name says.
  """
  try:
    return unpacked(path.read_bytes(), path.suffix)
  except BROKEN as error:
    raise _unreadable(path, error) from error


def _read(place: Path, name: str) -> tuple[Path, bytes]:
  for suffix in SUFFIXES:
    path = place / (name + suffix)
    if path.is_file():
      return path, unpack(path)
  raise UserError(
    f'{str(place / name)!r} is missing (plain, .gz or .xz) though '
    f'files of this data set, or of another with the same names, are there; '
    f'add it, or move them elsewhere to have the data set downloaded.'
  )


def _members(archive: Path, names: list[str]) -> dict[str, tuple[Path, bytes]]:
  found = {}
  try:
    # As a stream, so that nothing, not even a header, is read without limit.
    with (
      gzip.open(archive) as file,
      tarfile.open(fileobj=cast(Any, Bounded(file)), mode='r|') as tar,
    ):
      for member in tar:
        name = Path(member.name).name
        if member.isfile() and name in names:
          found[name] = archive / member.name, tar.extractfile(member).read()
  except BROKEN as error:
    raise _unreadable(archive, error) from error
  for name in names:
    if name not in found:
      raise UserError(f'{str(archive)!r} holds no {name!r}; {REPLACE}')
  return {name: found[name] for name in names}  # An archive has its own order.


def _unreadable(path: Path, error: Exception) -> UserError:
  return UserError(
    f'{str(path)!r} cannot be read and may be truncated or '
    f'corrupt ({error}); {REPLACE}'
  )


def _verify(path: Path, data: bytes, name: str, expected: str) -> None:
  actual = hashlib.sha256(data).hexdigest()
  if actual != expected:
    raise UserError(
      f'{str(path)!r} is not the published file of {name}: the SHA-256 '
      f'of its contents is {actual}, not {expected}; {REPLACE}'
    )
