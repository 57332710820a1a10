"""Files that survive a power failure, and manifests that show damage.

A manifest is the file manifest.json of a folder. It holds the SHA-256 of each
file by name, and is written after these files.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import types
from collections.abc import Iterable, Iterator, Mapping

MANIFEST = 'manifest.json'
MODEL = 'model.msgpack'  # Of a run, see model_file.py.


def write(path: pathlib.Path, contents: str | bytes) -> None:
  """Writes the whole file or, if that fails, leaves it as it was.

  Raises:
    OSError: writing to the disk fails.
  """
  half = partial(path)
  try:
    half.write_bytes(
      contents.encode() if isinstance(contents, str) else contents
    )
    sync(half)
    os.replace(half, path)
    sync(path.parent)
  except OSError as error:
    error.filename = str(path)  # The caller's file, not the temporary one.
    with contextlib.suppress(OSError):
      half.unlink()
    raise


@contextlib.contextmanager
def named(path: pathlib.Path) -> Iterator[None]:
  """Adds a path to errors inside: a failed write to an open file names none."""
  try:
    yield
  except OSError as error:
    error.filename = error.filename or str(path)
    raise


def partial(path: pathlib.Path) -> pathlib.Path:
  """The temporary file that this process writes and then renames to `path`."""
  return path.with_name(f'.{path.name}.{os.getpid()}.half')


def partials(path: pathlib.Path) -> set[pathlib.Path]:
  """The temporary files of all processes for `path`, also of killed ones."""
  return {*path.parent.glob(f'.{path.name}.*half')}


def make(folder: pathlib.Path) -> None:
  """Makes a folder that is missing, and missing folders above it.

  Raises:
    OSError: writing to the disk fails.
  """
  missing = [path for path in (folder, *folder.parents) if not path.exists()]
  folder.mkdir(parents=True, exist_ok=True)
  for path in missing[::-1]:
    sync(path.parent)


def clear(folder: pathlib.Path) -> None:
  """Removes the temporary files that killed processes have left in a folder."""
  for half in folder.glob('.*.half'):
    if half.is_file():
      half.unlink(missing_ok=True)


def sync(path: pathlib.Path) -> None:
  """Returns once a file's contents, or a folder's entries, are on the disk.

  Raises:
    OSError: writing to the disk fails.
  """
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def seal(
  folder: pathlib.Path,
  names: Iterable[str] | None = None,
  next_files: Mapping[str, str] = types.MappingProxyType({}),
) -> None:
  """Writes the manifest of some files in a folder, by default of all below it.

  Args:
    folder: of the files.
    names: of the files; None for all.
    next_files: contents, by name, of files that will be written next.

  Raises:
    OSError: writing to the disk fails.
  """
  if names is None:
    files = [path for path in sorted(folder.rglob('*')) if path.is_file()]
    for path in [*files, *(p for p in folder.rglob('*') if p.is_dir())]:
      sync(path)
    names = [path.relative_to(folder).as_posix() for path in files]
  digests = {name: digest(folder / name) for name in names} | {
    name: hashlib.sha256(contents.encode()).hexdigest()
    for name, contents in next_files.items()
  }
  write(folder / MANIFEST, json.dumps(digests, indent=2))


def digest(path: pathlib.Path) -> str:
  """SHA-256 of a file, as hexadecimal digits."""
  with path.open('rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()


def damage(folder: pathlib.Path) -> str:
  """Says how a folder differs from its manifest; '' if it does not."""
  try:
    manifest = json.loads((folder / MANIFEST).read_bytes())
    digests = {str(name): str(value) for name, value in manifest.items()}
  except FileNotFoundError:
    return f'{MANIFEST} is missing'
  except (OSError, ValueError, AttributeError, RecursionError):
    return f'{MANIFEST} is damaged'
  for name, value in digests.items():
    try:
      if digest(folder / name) != value:
        return f'{name} is not as it was written'
    except OSError:
      return f'{name} is missing'
  return ''
