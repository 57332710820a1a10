"""Reads what runs have left in a workdir, without needing JAX.

What a workdir holds is told in experiments/workdir.py. Runs may still be going
on: those not begun are left out, and so is a line that is only half there.
"""

import gc
import json
import math
import pathlib
from collections.abc import Iterator, Sequence
from types import NoneType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gossipjax.refusal import Refusal

SCHEMA = 1  # Of config.json, records.jsonl and summary.json together.


class Run(NamedTuple):
  """One variant of a comparison.

  Attributes:
    workdir: of the comparison.
    name: of the variant.
    config: the base config with the variant's changes, without `variants`.
    records: per field of a record an array, [records]. Of lists over workers
      the largest, of dicts over links a field per link.
    summary: what is left in the end; None while the run goes on.
  """

  workdir: pathlib.Path
  name: str
  config: dict[str, Any]
  records: dict[str, np.ndarray]
  summary: dict[str, Any] | None


def read(*workdirs: str | pathlib.Path) -> list[Run]:
  """All runs of some comparisons that have a record, in their order.

  Raises:
    Refusal: there is nothing to read, or something broken, or files of
      several versions.
  """
  if not workdirs:
    raise Refusal('load() needs the folder of a comparison, such as '
                  'runs/quickstart-20250101-120000.')
  folders = [pathlib.Path(folder) for folder in workdirs]
  seen, found = {}, []
  for folder in folders:
    if folder.resolve() in seen.values():
      raise Refusal(f'{folder} is given twice; name each workdir once.')
    seen[folder] = folder.resolve()
  versions = {folder: _claimed(folder) for folder in folders}
  _one_version({f: v.get('schema', SCHEMA) for f, v in versions.items()})
  for folder, claimed in versions.items():
    runs = list(_runs(folder, claimed['config']))
    if not runs:
      raise Refusal(f'{folder} holds no record yet; wait for the first, or '
                    'name another workdir.')
    found += runs
  return found


def _claimed(folder: pathlib.Path) -> dict[str, Any]:
  if not folder.is_dir():
    raise Refusal(f'{folder} is no folder; name the workdir of a comparison.')
  if not (folder / 'config.json').exists():
    raise Refusal(f'{folder} holds no run (there is no config.json); name the '
                  'workdir of a comparison.')
  return _json(folder / 'config.json')


def _one_version(versions: dict[pathlib.Path, int]) -> None:
  for folder, version in versions.items():
    first = next(iter(versions))
    if version != versions[first]:
      raise Refusal(
          f'{first} has schema version {versions[first]} and {folder} '
          f'{version}; load them one by one, or run one of them again.')
    if version != SCHEMA:
      raise Refusal(f'{folder} has schema version {version}, this gossipjax '
                    f'reads {SCHEMA}; use the one that wrote it.')


def _runs(folder: pathlib.Path, config: dict[str, Any]) -> Iterator[Run]:
  base = {k: v for k, v in config.items() if k != 'variants'}
  changes = config.get('variants') or {config['strategy']['name']: {}}
  for name, change in changes.items():
    lines = folder / name / 'records.jsonl'
    records = _columns(lines) if lines.exists() else {}
    if records:
      end = folder / name / 'summary.json'
      yield Run(folder, name, changed(base, change), records,
                _json(end) if end.exists() else None)


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
  """A config with a variant's changes; what has a name is replaced whole."""
  result = dict(base)
  for key, value in changes.items():
    part = isinstance(value, dict) and 'name' not in value
    result[key] = changed(result.get(key) or {}, value) if part else value
  return result


def _json(path: pathlib.Path) -> dict[str, Any]:
  try:
    found = json.loads(path.read_text())
    return {**found}
  except (OSError, ValueError, TypeError) as error:
    raise Refusal(f'{path} is damaged ({error}); name another workdir.'
                  ) from error


def _columns(path: pathlib.Path) -> dict[str, np.ndarray]:
  whole = path.read_bytes()
  whole = whole[:whole.rfind(b'\n') + 1]
  if not whole:
    return {}
  # Millions of new lists would make the collector look at them all, often.
  collects = gc.isenabled()
  gc.disable()
  try:
    lists = _quickly(whole) or _slowly(path, whole)
    flat = {}
    for name, values in lists.items():
      flat |= _flat(name, values)
    return {name: _array(path, name, v) for name, v in flat.items()}
  finally:
    if collects:
      gc.enable()


def _quickly(whole: bytes) -> dict[str, Sequence] | None:
  """Columns of lines that are all alike, else None."""
  try:
    some = json.loads(whole[:whole.index(b'\n')])
    rows = msgspec.json.Decoder(_struct(some)).decode_lines(whole)
  except (ValueError, TypeError, AttributeError):
    return None
  columns = zip(*map(msgspec.structs.astuple, rows), strict=True)
  return dict(zip(some, columns, strict=True))


def _struct(some: dict[str, Any]) -> type[msgspec.Struct]:
  return msgspec.defstruct('Line', [
      (name, dict[str, float | None] if isinstance(value, dict) else Any)
      for name, value in some.items()], gc=False, forbid_unknown_fields=True)


def _slowly(path: pathlib.Path, whole: bytes) -> dict[str, Sequence]:
  """The same for lines with NaN or a field that others lack, or a refusal."""
  rows = []
  for number, line in enumerate(whole.splitlines(), 1):
    try:
      rows.append({'step': None, **json.loads(line)})
    except (ValueError, TypeError) as error:
      raise Refusal(f'{path}, line {number} is no record ({error}); delete '
                    'the line, or run the variant again.') from error
  names = dict.fromkeys(name for row in rows for name in row)
  return {name: [row.get(name) for row in rows] for name in names}


def _flat(name: str, values: Sequence) -> dict[str, Sequence]:
  """A list over workers becomes its largest, a dict a column per key."""
  some = next((v for v in values if v is not None), None)
  if isinstance(some, list):
    return {name: list(map(max, values)) if all(values) else
            [max(v) if v else None for v in values]}
  if isinstance(some, dict):
    stem, unit = (name[:-2], '_s') if name.endswith('_s') else (name, '')
    return {f'{stem}_{key}{unit}': [v[key] if v else None for v in values]
            for key in some}
  return {name: values}


def _array(path: pathlib.Path, name: str, values: Sequence
           ) -> np.ndarray:
  kinds = set(map(type, values))
  if not kinds <= {int, float, NoneType}:
    raise Refusal(f'{path}: {name} is no number in some line; run the '
                  'variant again.')
  if kinds == {int}:
    return np.fromiter(values, np.int64, len(values))
  if NoneType in kinds:
    values = [math.nan if v is None else v for v in values]
  return np.fromiter(values, np.float64, len(values))
