"""Results that are computed once and kept, as lines of JSON.

A result is found by a digest of its key: a JSON object that says what is
computed, such as the config of a training. The key holds no path and no
machine, so that the same question finds the same line everywhere. A folder has
a file for each kind of result; pandas.read_json(file, lines=True) reads it.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any

from gossipjax.errors import UserError
from gossipjax.results import workdir

Key = Mapping[str, Any]  # What is computed; values as JSON has them.
Line = dict[str, Any]  # digest, key, result, seconds, made_with.
RUNS = pathlib.Path(__file__).parents[1] / 'runs'
LARGEST = 2**62  # Bound of lock offsets, which may be beyond the file's end.


def folder_of(scale: str, folder: pathlib.Path = RUNS) -> pathlib.Path:
  """Returns the folder of a scale's kept runs; runs on GPUs have their own.

  A table uses the runs of one scale, and run times are estimated by scale.
  """
  return folder / scale if scale == 'gpu' else folder


def digest(key: Key) -> str:
  """16 hexadecimal digits of a key's SHA-256."""
  text = json.dumps(key, sort_keys=True, allow_nan=False)
  return hashlib.sha256(text.encode()).hexdigest()[:16]


class ResultStore:
  """The results in a folder."""

  def __init__(self, folder: pathlib.Path = RUNS):
    self.folder = folder
    self._read: dict[pathlib.Path, tuple[int, dict[str, Line]]] = {}

  def find(self, kind: str, key: Key) -> Line | None:
    """The line of a result, None if it was not computed yet.

    Args:
      kind: names the file.
      key: what is computed.

    Raises:
      UserError: a line of the file is damaged.
    """
    return self.lines(kind).get(digest(key))

  def kinds(self) -> list[str]:
    """The names of its files, in their order."""
    return [path.stem for path in sorted(self.folder.glob('*.jsonl'))]

  def lines(self, kind: str) -> dict[str, Line]:
    """All lines of a file, by the digest of their key."""
    path = self.folder / f'{kind}.jsonl'
    size = path.stat().st_size if path.exists() else 0
    if self._read.get(path, (-1, {}))[0] != size:
      self._read[path] = size, _lines(path) if size else {}
    return self._read[path][1]

  def add(
    self, kind: str, key: Key, result: Any, seconds: float, made_with: Any
  ) -> None:
    """Appends a result; its whole line is on the disk when this returns.

    Args:
      kind: names the file.
      key: what was computed; everything that changes the result is in it.
      result: a value that JSON can hold.
      seconds: how long computing it took.
      made_with: commit, versions and devices, see `workdir.provenance`.
    """
    line = {
      'digest': digest(key),
      'key': key,
      'result': result,
      'seconds': round(seconds, 1),
      'made_with': made_with,
    }
    path = self.folder / f'{kind}.jsonl'
    before, after = append(path, line)
    size, known = self._read.get(path, (0, {}))
    if size == before:  # Otherwise another process has written, too.
      self._read[path] = after, known | {line['digest']: line}

  def get_or_compute(
    self, kind: str, key: Key, compute: Callable[[], Any]
  ) -> Any:
    """Returns a result; computes and keeps it first if it is missing."""
    if (line := self.find(kind, key)) is None:
      began = time.perf_counter()
      result = compute()
      seconds = time.perf_counter() - began
      self.add(kind, key, result, seconds, workdir.provenance())
      line = self.find(kind, key)
    return line['result']


@contextlib.contextmanager
def locked(key: Key, locks: pathlib.Path) -> Iterator[bool]:
  """Yields whether this process may compute a result; then no other one may.

  Locks one byte of a file, at an offset derived from the digest of the key. The
  system releases the lock when the process ends in any way, or closes any
  handle of that file, so that a process can claim one result at a time.

  Args:
    key: of the result.
    locks: lock file of all processes that share the work; created if missing.
  """
  locks.parent.mkdir(parents=True, exist_ok=True)
  with locks.open('a') as file:
    try:
      offset = int(digest(key), 16) % LARGEST
      fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
    except (BlockingIOError, PermissionError):  # Which depends on the system.
      yield False
    else:
      yield True


def append(path: pathlib.Path, line: Mapping[str, Any]) -> tuple[int, int]:
  """Appends a line to a file; it is on the disk when this returns.

  What a process that was killed has left of a line is cut off before.

  Args:
    path: of the file; it is created, with its folder, if it is missing.
    line: of values that JSON can hold.

  Returns:
    Bytes of whole lines in the file, before and after.
  """
  text = json.dumps(line, allow_nan=False, separators=(',', ':')) + '\n'
  path.parent.mkdir(parents=True, exist_ok=True)
  with path.open('a+b') as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    before = _whole_lines(file)
    file.truncate(before)
    file.write(text.encode())
    file.flush()
    os.fsync(file.fileno())
    return before, file.tell()


def _whole_lines(file: IO[bytes]) -> int:
  """Bytes of a file up to the end of its last whole line."""
  end = file.seek(0, os.SEEK_END)
  if end:  # Long files are not read as long as they end as they should.
    file.seek(end - 1)
    if file.read() == b'\n':
      return end
  file.seek(0)
  return file.read().rfind(b'\n') + 1


def _lines(path: pathlib.Path) -> dict[str, Line]:
  found = {}
  text = path.read_bytes()
  # A process that was killed while writing may leave a part of a line.
  for number, line in enumerate(text[: text.rfind(b'\n') + 1].splitlines(), 1):
    try:
      entry = json.loads(line)
      found[entry['digest']] = entry
    except (ValueError, LookupError, TypeError) as error:
      raise UserError(
        f'{path}, line {number} is damaged ({error}); remove that line, and '
        'its result is computed again.'
      ) from error
  return found


def but_seed(config: Mapping[str, Any]) -> dict[str, Any]:
  """Returns a config without its seed, the same for runs that differ in it."""
  return {k: v for k, v in config.items() if k != 'seed'}


def once_per_seed(
  lines: Iterable[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
  """Yields one line for each config: a run that was also made with a probe has
  two lines, but is one seed."""
  found = {json.dumps(line['key'].get('config')): line for line in lines}
  yield from found.values()
