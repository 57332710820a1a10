"""Fetches published files into the user's cache, once."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pooch
import requests
from filelock import FileLock

from gossipjax.errors import UserError

TIMEOUT_S = 30


def fetch(name: str, url: str, downloads: Mapping[str, str]) -> Path:
  """Downloads files that the cache lacks, and verifies those it holds.

  Args:
    name: the data set; its folder in the cache.
    url: where its files are; a file's name is appended.
    downloads: name of a file -> SHA-256 of the file as it is downloaded.

  Returns:
    The folder that holds all of them.

  Raises:
    UserError: the server cannot be reached, sends something else, or the cache
      cannot be written.
  """
  folder = Path(pooch.os_cache('gossipjax')) / name
  pooch.get_logger().setLevel('WARNING')
  if _whole(folder, downloads):
    return folder  # Without a lock: a cache may be read-only.
  try:
    folder.mkdir(parents=True, exist_ok=True)
    # Of processes that start together, one fetches and the others wait.
    with FileLock(f'{folder}.lock'):
      for file, sha256 in downloads.items():
        _retrieve(url + file, sha256, folder / file)
  except OSError as error:
    raise UserError(
      f'{str(error.filename or folder)!r} cannot be written '
      f'({error.strerror}); make room, or choose another cache '
      'with XDG_CACHE_HOME.'
    ) from error
  return folder


def _whole(folder: Path, downloads: Mapping[str, str]) -> bool:
  return all(
    (folder / file).is_file()
    and pooch.file_hash(str(folder / file), 'sha256') == sha256
    for file, sha256 in downloads.items()
  )


def _retrieve(url: str, sha256: str, path: Path) -> None:
  # A progress bar is control characters: only a terminal gets one.
  downloader = pooch.HTTPDownloader(
    progressbar=sys.stderr.isatty(), timeout=TIMEOUT_S
  )
  try:
    pooch.retrieve(
      url,
      f'sha256:{sha256}',
      fname=path.name,
      path=path.parent,
      downloader=downloader,
    )
  except requests.RequestException as error:
    raise UserError(
      f'{url} cannot be downloaded ({_reason(error)}); check the '
      f'network, or put the files into a folder and name it with '
      f'data.dir or GOSSIPJAX_DATA.'
    ) from error
  except ValueError as error:  # what pooch raises for a wrong checksum
    raise UserError(
      f'{url} does not have the published SHA-256 {sha256}; try again '
      f'later, or put the files into a folder and name it with '
      f'data.dir or GOSSIPJAX_DATA.'
    ) from error


def _reason(error: requests.RequestException) -> str:
  if error.response is not None:
    return f'the server answers {error.response.status_code}'
  return type(error).__name__
