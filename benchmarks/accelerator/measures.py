"""The measures of a part, and the loop that makes the missing ones.

A measure is found by its key, so that a call resumes where the last one was cut
off by the time limit, an error of one measure, or a crash of the process.
Measures that were begun most often come last, so that one that cannot be made
does not block the others. Several processes may work on a part in parallel;
none makes a measure that another one has begun.
"""

import collections
import json
import os
import pathlib
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from experiments.framework.result_store import (
  ResultStore,
  append,
  digest,
  locked,
)
from gossipjax.results import workdir

BEGUN, FAILED = 'begun.jsonl', 'failed.jsonl'
LOCK = '.lock'  # A file with a lock byte for each measure.
REHEARSED = 'rehearsed'  # In keys of a rehearsal.
ALIKE = 3  # Failures in a row, for the same reason, after which a part ends.


class Measure(NamedTuple):
  """Something to be measured.

  Attributes:
    key: what is measured; JSON.
    make: seconds that it may take -> its result; JSON.
    least_s: with fewer seconds left it is not begun.
  """

  key: dict[str, Any]
  make: Callable[[float], dict[str, Any]]
  least_s: float = 0.0


def rehearsed(measures: Iterable[Measure]) -> Iterator[Measure]:
  """Yields measures of a rehearsal; a key is never that of a real measure."""
  for measure in measures:
    yield measure._replace(key=measure.key | {REHEARSED: True})


def of_device(measures: Iterable[Measure], kind: str) -> Iterator[Measure]:
  """Yields measures of a kind of device; those of another have other keys."""
  for measure in measures:
    yield measure._replace(key=measure.key | {'device': kind})


class Clock:
  """A clock of the time that a call has left."""

  def __init__(self, minutes: float):
    self._end = time.monotonic() + 60 * minutes

  def left(self) -> float:
    """Returns the seconds that are left."""
    return self._end - time.monotonic()


def make_missing(
  folder: pathlib.Path, part: str, measures: Iterable[Measure], clock: Clock
) -> Iterator[str]:
  """Makes the measures that a part's file lacks; yields a line about each.

  Args:
    folder: of the files.
    part: names the file.
    measures: all of them.
    clock: no measure begins when its time is over.
  """
  kept, begun = ResultStore(folder), _begun(folder)
  missing = [m for m in measures if kept.find(part, m.key) is None]
  missing.sort(key=lambda m: begun[digest(m.key)])
  reasons = collections.deque(maxlen=ALIKE)
  for number, measure in enumerate(missing):
    if clock.left() <= 0 or (len(reasons) == ALIKE and len({*reasons}) == 1):
      yield f'{part}: {len(missing) - number} measures are left'
      return
    if clock.left() < measure.least_s:
      yield (
        f'{part} {_words(measure.key)} is left: '
        f'it takes up to {measure.least_s / 60:g} minutes'
      )
      continue
    with locked(measure.key, folder / LOCK) as acquired:
      key_digest = digest(measure.key)
      begun_meanwhile = _begun(folder)[key_digest] > begun[key_digest]
      if not acquired or begun_meanwhile or kept.find(part, measure.key):
        continue  # Another process makes it, or has.
      line, reason = _make(folder, part, measure, kept, clock)
    reasons.append(reason or number)  # A success is unlike any other entry.
    yield line


def _make(
  folder: pathlib.Path,
  part: str,
  measure: Measure,
  kept: ResultStore,
  clock: Clock,
) -> tuple[str, str]:
  """Makes a measure; returns a line about it, and why it failed or ''."""
  note = {'part': part, 'digest': digest(measure.key), 'key': measure.key}
  append(folder / BEGUN, note)
  began = time.perf_counter()
  try:
    result = measure.make(clock.left())
    seconds = time.perf_counter() - began
    kept.add(part, measure.key, result, seconds, workdir.provenance())
  except Exception as error:  # One failure does not stop the other measures.
    reason = ' '.join(str(error).split())[:500] or type(error).__name__
    trace = traceback.format_exc()[-4000:]
    append(
      folder / FAILED,
      {'part': part, 'key': measure.key, 'error': reason, 'trace': trace},
    )
    line = f'{part} {_words(measure.key)} FAILED: {reason[:200]}'
    if 'CUDA_ERROR' in reason and 'OUT_OF_MEMORY' not in reason:
      print(line, flush=True)
      os.abort()  # CUDA fails in this process from now on; another is started.
    return line, reason
  return f'{part} {_words(measure.key)}: {seconds:.1f} s', ''


def failures(folder: pathlib.Path) -> list[dict[str, Any]]:
  """The last failure of each measure that was never made."""
  kept = ResultStore(folder)
  last = {digest(line['key']): line for line in _lines(folder / FAILED)}
  return [
    line
    for line in last.values()
    if kept.find(line['part'], line['key']) is None
  ]


def cut_off(folder: pathlib.Path) -> list[dict[str, Any]]:
  """Returns part and key of each measure that was begun, but neither made nor
  failed: the time was over, or its process crashed."""
  kept = ResultStore(folder)
  failed = {digest(line['key']) for line in _lines(folder / FAILED)}
  begun = {line['digest']: line for line in _lines(folder / BEGUN)}
  return [
    line
    for line in begun.values()
    if line['digest'] not in failed
    and kept.find(line['part'], line['key']) is None
  ]


def _begun(folder: pathlib.Path) -> collections.Counter[str]:
  return collections.Counter(line['digest'] for line in _lines(folder / BEGUN))


def _lines(path: pathlib.Path) -> list[dict[str, Any]]:
  """Reads whole lines of a file; a killed process may leave a part of one."""
  text = path.read_text() if path.exists() else ''
  return [json.loads(x) for x in text[: text.rfind('\n') + 1].splitlines()]


def _words(key: dict[str, Any]) -> str:
  return ' '.join(f'{name}={value}' for name, value in key.items())
