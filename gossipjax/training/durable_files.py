"""Files that survive a power failure, and manifests that show damage.

A manifest is a file manifest.json in a folder: the SHA-256 of each of its files
by name. It is written after them.
"""

import contextlib
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Iterator

MANIFEST = 'manifest.json'
MODEL = 'model.msgpack'  # Of a run, see model_file.py.


def write(path: pathlib.Path, contents: str | bytes) -> None:
  """Writes the whole file or, where that fails, leaves it as it was.

  Raises:
    OSError: the disk does not take it.
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
  """Errors inside name a path: those of a write to an open file name none."""
  try:
    yield
  except OSError as error:
    error.filename = error.filename or str(path)
    raise


def partial(path: pathlib.Path) -> pathlib.Path:
  """Where this process writes before the file gets its name."""
  return path.with_name(f'.{path.name}.{os.getpid()}.half')


def partials(path: pathlib.Path) -> set[pathlib.Path]:
  """What any process has written, or left when it was killed, before that."""
  return {*path.parent.glob(f'.{path.name}.*half')}


def make(folder: pathlib.Path) -> None:
  """Makes a folder that is missing, and those above it.

  Raises:
    OSError: the disk does not take it.
  """
  missing = [path for path in (folder, *folder.parents) if not path.exists()]
  folder.mkdir(parents=True, exist_ok=True)
  for path in missing[::-1]:
    sync(path.parent)


def clear(folder: pathlib.Path) -> None:
  """Removes what processes that were killed have left of files in a folder."""
  for half in folder.glob('.*.half'):
    if half.is_file():
      half.unlink(missing_ok=True)


def sync(path: pathlib.Path) -> None:
  """Returns once the disk holds a file, or the names in a folder.

  Raises:
    OSError: it does not take them.
  """
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def seal(folder: pathlib.Path, names: Iterable[str] | None = None) -> None:
  """Writes the manifest of some files in a folder, by default of all below it.

  Raises:
    OSError: the disk does not take it.
  """
  if names is None:
    inside = [path for path in sorted(folder.rglob('*')) if path.is_file()]
    for path in [*inside, *(p for p in folder.rglob('*') if p.is_dir())]:
      sync(path)
    names = [path.relative_to(folder).as_posix() for path in inside]
  found = {name: digest(folder / name) for name in names}
  write(folder / MANIFEST, json.dumps(found, indent=2))


def digest(path: pathlib.Path) -> str:
  """SHA-256 of a file, as hexadecimal digits."""
  with path.open('rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()


def damage(folder: pathlib.Path) -> str:
  """What in a folder is not as its manifest says; '' if all is."""
  try:
    wanted = json.loads((folder / MANIFEST).read_bytes())
    names = {str(name): str(value) for name, value in wanted.items()}
  except FileNotFoundError:
    return f'{MANIFEST} is missing'
  except (OSError, ValueError, AttributeError, RecursionError):
    return f'{MANIFEST} is damaged'
  for name, value in names.items():
    try:
      if digest(folder / name) != value:
        return f'{name} is not as it was written'
    except OSError:
      return f'{name} is missing'
  return ''
