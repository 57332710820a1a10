"""records.jsonl of a run: appended to while it trains, read as columns.

msgspec decodes and checks the lines. On a busy machine it reads 95,000 lines a
second; polars, which cannot read NaN, reads 63,000, and pyarrow 60,000. Both
would add 170 MB to the installation.
"""

import json
import math
import operator
import os
import pathlib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from types import NoneType
from typing import Any

import msgspec
import numpy as np

from gossipjax.errors import UserError
from gossipjax.training.durable_files import named, write
from gossipjax.training.record import Record

# Prefixes of the columns that have no value at the end of a diverged run.
SCORES = ('test_', 'worker0_', 'train_loss', 'consensus_distance')
_BATCH = 2**17  # Bytes whose decoded records fit into a processor's cache.
_DECODER = msgspec.json.Decoder(Record)
_FIELDS = msgspec.structs.fields(Record)


def append(path: pathlib.Path, record: Record) -> None:
  """Appends a record as one line of JSON."""
  with named(path), path.open('a') as file:
    # msgspec would write null for NaN.
    file.write(json.dumps(to_dict(record)) + '\n')
    file.flush()
    os.fsync(file.fileno())


def to_dict(record: Record) -> dict[str, Any]:
  """The fields of a record; a None is left out if it is the field's default."""
  # NumPy's scalars become Python's.
  return msgspec.to_builtins(record, enc_hook=operator.methodcaller('item'))


def restore(path: pathlib.Path, kept: bytes) -> str:
  """Restores the file from the copy in a checkpoint.

  Args:
    path: of the file, which may be missing.
    kept: the lines of the copy, all complete, see `Store.records`.

  Returns:
    A warning if lines that the checkpoint kept were damaged; '' if none was.
  """
  content = path.read_bytes() if path.exists() else b''
  write(path, kept)
  if content.startswith(kept):
    return ''
  pairs = zip_longest(content.splitlines(True), kept.splitlines(True))
  number = next(n for n, (a, b) in enumerate(pairs, 1) if a != b)
  return (
    f'{path} was damaged from line {number} on; it is restored from the '
    'checkpoint.'
  )


def read(path: pathlib.Path) -> list[Record]:
  """All records of a run; an incomplete last line is ignored.

  Raises:
    UserError: a line is not a record.
  """
  return [record for rows in _records(path) for record in rows]


def columns(path: pathlib.Path) -> dict[str, np.ndarray]:
  """The fields of all records as arrays; an incomplete last line is ignored.

  Returns:
    Arrays i64 or f64[records], NaN for None. For a list over workers, the
    column has the largest entry. `comm_s` gives a column `comm_LINK_s` per
    link, `hidden_s` likewise, and `scores` a column per score. Fields with a
    default are left out if no record has them. {} if there is no record.

  Raises:
    UserError: a line is not a record.
  """
  parts = [(len(rows), _columns(rows)) for rows in _records(path) if rows]
  names = dict.fromkeys(name for _, part in parts for name in part)
  return {
    name: np.concatenate(
      [part.get(name, np.full(lines, np.nan)) for lines, part in parts]
    )
    for name in names
  }


def _records(path: pathlib.Path) -> Iterator[list[Record]]:
  """Records in batches, in their order."""
  above = 0
  for lines in _batches(path):
    yield _decode(path, above, lines)
    above += len(lines)


def _batches(path: pathlib.Path) -> Iterator[list[bytes]]:
  """Complete lines in batches, in their order."""
  with path.open('rb') as file:
    while lines := file.readlines(_BATCH):
      if not lines[-1].endswith(b'\n'):
        yield lines[:-1]
        return
      yield lines


def _decode(
  path: pathlib.Path, above: int, lines: Sequence[bytes]
) -> list[Record]:
  """Decodes lines; `above` is the number of lines before them in the file."""
  try:
    rows = _DECODER.decode_lines(b''.join(lines))
    if len(rows) == len(lines):
      return rows
  except (msgspec.MsgspecError, RecursionError):
    pass  # NaN, which msgspec does not know, or an error: reads line by line.
  return [
    _decode_one(path, number, line)
    for number, line in enumerate(lines, above + 1)
  ]


def _decode_one(path: pathlib.Path, number: int, line: bytes) -> Record:
  try:
    return msgspec.convert(json.loads(line), Record)
  except (ValueError, RecursionError) as error:
    raise UserError(
      f'{path}, line {number} is not a record ({error}); the same run with '
      '--resume restores what its checkpoint has, or use the gossipjax that '
      'wrote it.'
    ) from error


def _columns(rows: Sequence[Record]) -> dict[str, np.ndarray]:
  """As `columns`, of at least one record."""
  found = {}
  fields = zip(*map(msgspec.structs.astuple, rows), strict=True)
  for field, values in zip(_FIELDS, fields, strict=True):
    known = next((v for v in values if v is not None), None)
    if isinstance(known, dict):
      template = _FORMS.get(field.name, '{}')
      for key in known:
        column = _array([None if v is None else v.get(key) for v in values])
        found[template.format(key)] = column
    elif isinstance(known, list):
      found[field.name] = _array([max(v) if v else None for v in values])
    elif known is not None or field.required:
      found[field.name] = _array(values)
  return found


# Names of the columns of fields that have a value per link.
_FORMS = {'comm_s': 'comm_{}_s', 'hidden_s': 'hidden_{}_s'}


def _array(values: Sequence[float | None]) -> np.ndarray:
  """i64 where all are integers, otherwise f64 with NaN for None."""
  kinds = set(map(type, values))
  if kinds == {int}:
    return np.fromiter(values, np.int64, len(values))
  if NoneType in kinds:
    values = [math.nan if v is None else v for v in values]
  return np.fromiter(values, np.float64, len(values))
