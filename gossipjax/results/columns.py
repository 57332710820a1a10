"""Records, one JSON object a line, as columns; 200,000 lines a second."""

import functools
import gc
import json
import math
import pathlib
from collections.abc import Iterator, Sequence
from types import NoneType
from typing import Any

import msgspec
import numpy as np

from gossipjax.errors import UserError

_BLOCK = 2**17  # Bytes; what is made of them fits the processor's caches.


def columns(path: pathlib.Path) -> dict[str, np.ndarray]:
  """The fields of all lines but a last one that is only half there.

  Args:
    path: a file whose lines are objects of numbers, null, lists of numbers
      (their largest is taken) and objects of numbers (a column for each).

  Returns:
    Arrays i64 or f64[lines], NaN for null and for what a line lacks. A field
    `comm_s` with the key `wan` is the column `comm_wan_s`.

  Raises:
    UserError: a line is something else.
  """
  # Millions of new lists would make the collector look at them all, often.
  collects = gc.isenabled()
  gc.disable()
  try:
    parts = list(_parts(path))
  finally:
    if collects:
      gc.enable()
  names = dict.fromkeys(name for _, part in parts for name in part)
  return {
    name: np.concatenate(
      [part.get(name, np.full(lines, np.nan)) for lines, part in parts]
    )
    for name in names
  }


def _parts(path: pathlib.Path) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
  """Blocks of lines: how many, and their columns."""
  begins = 0
  for block in _blocks(path):
    lines = _quickly(block) or _slowly(path, begins, block)
    begins += block.count(b'\n')
    flat = {}
    for name, values in lines.items():
      flat |= _flat(name, values)
    part = {name: _array(path, name, v) for name, v in flat.items()}
    if part:
      yield len(part['step']), part


def _blocks(path: pathlib.Path) -> Iterator[bytes]:
  with path.open('rb') as file:
    while block := file.read(_BLOCK):
      block += file.readline()
      if whole := block[: block.rfind(b'\n') + 1]:
        yield whole


def _quickly(block: bytes) -> dict[str, Sequence] | None:
  """Columns of lines that are all alike, else None."""
  try:
    some = json.loads(block[: block.index(b'\n')])
    some['step']
    fields = tuple((name, isinstance(v, dict)) for name, v in some.items())
    rows = _decoder(fields).decode_lines(block)
  except (ValueError, TypeError, AttributeError, LookupError):
    return None
  found = zip(*map(msgspec.structs.astuple, rows), strict=True)
  return dict(zip(some, found, strict=True))


@functools.cache
def _decoder(fields: tuple[tuple[str, bool], ...]) -> msgspec.json.Decoder:
  return msgspec.json.Decoder(
    msgspec.defstruct(
      'Line',
      [
        (name, dict[str, float | None] if nested else Any)
        for name, nested in fields
      ],
      gc=False,
      forbid_unknown_fields=True,
    )
  )


def _slowly(
  path: pathlib.Path, begins: int, block: bytes
) -> dict[str, Sequence]:
  """The same for lines with NaN or a field that others lack, or a refusal."""
  rows = []
  for number, line in enumerate(block.splitlines(), begins + 1):
    try:
      rows.append({'step': None, **json.loads(line)})
    except (ValueError, TypeError) as error:
      raise UserError(
        f'{path}, line {number} is no record ({error}); delete '
        'the line, or run the variant again.'
      ) from error
  names = dict.fromkeys(name for row in rows for name in row)
  return {name: [row.get(name) for row in rows] for name in names}


def _flat(name: str, values: Sequence) -> dict[str, Sequence]:
  """A list over workers becomes its largest, a dict a column per key."""
  some = next((v for v in values if v is not None), None)
  if isinstance(some, list):
    return {
      name: list(map(max, values))
      if all(values)
      else [max(v) if v else None for v in values]
    }
  if isinstance(some, dict):
    stem, unit = (name[:-2], '_s') if name.endswith('_s') else (name, '')
    return {
      f'{stem}_{key}{unit}': [v.get(key) if v else None for v in values]
      for key in some
    }
  return {name: values}


def _array(path: pathlib.Path, name: str, values: Sequence) -> np.ndarray:
  kinds = set(map(type, values))
  if not kinds <= {int, float, NoneType}:
    raise UserError(
      f'{path}: {name} is no number in some line; run the variant again.'
    )
  if kinds == {int}:
    return np.fromiter(values, np.int64, len(values))
  if NoneType in kinds:
    values = [math.nan if v is None else v for v in values]
  return np.fromiter(values, np.float64, len(values))
