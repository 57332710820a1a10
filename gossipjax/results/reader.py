"""Reads what runs have left in a workdir, without needing JAX.

results/workdir.py says what a workdir holds. Runs may still be going
on: those not begun are left out, and so is a line that is only half there.
"""

import json
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gossipjax.config.variants import merged
from gossipjax.errors import UserError
from gossipjax.results import columns

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
    UserError: there is nothing to read, or something broken, or files of
      several versions.
  """
  if not workdirs:
    raise UserError(
      'load() needs the folder of a comparison, such as '
      'runs/quickstart-20250101-120000.'
    )
  folders = [pathlib.Path(folder) for folder in workdirs]
  seen, found = {}, []
  for folder in folders:
    if folder.resolve() in seen.values():
      raise UserError(f'{folder} is given twice; name each workdir once.')
    seen[folder] = folder.resolve()
  versions = {folder: _claimed(folder) for folder in folders}
  _one_version({f: v.get('schema', SCHEMA) for f, v in versions.items()})
  for folder, claimed in versions.items():
    runs = list(_runs(folder, claimed['config']))
    if not runs:
      raise UserError(
        f'{folder} holds no record yet; wait for the first, or '
        'name another workdir.'
      )
    found += runs
  return found


def _claimed(folder: pathlib.Path) -> dict[str, Any]:
  if not folder.is_dir():
    raise UserError(f'{folder} is no folder; name the workdir of a comparison.')
  if not (folder / 'config.json').exists():
    raise UserError(
      f'{folder} holds no run (there is no config.json); name the '
      'workdir of a comparison.'
    )
  return _json(folder / 'config.json')


def _one_version(versions: dict[pathlib.Path, int]) -> None:
  for folder, version in versions.items():
    first = next(iter(versions))
    if version != versions[first]:
      raise UserError(
        f'{first} has schema version {versions[first]} and {folder} '
        f'{version}; load them one by one, or run one of them again.'
      )
    if version != SCHEMA:
      raise UserError(
        f'{folder} has schema version {version}, this gossipjax '
        f'reads {SCHEMA}; use the one that wrote it.'
      )


def _runs(folder: pathlib.Path, config: dict[str, Any]) -> Iterator[Run]:
  base = {k: v for k, v in config.items() if k != 'variants'}
  changes = config.get('variants') or {config['strategy']['name']: {}}
  for name, change in changes.items():
    lines = folder / name / 'records.jsonl'
    records = columns.columns(lines) if lines.exists() else {}
    if records:
      end = folder / name / 'summary.json'
      yield Run(
        folder,
        name,
        merged(base, change),
        records,
        _json(end) if end.exists() else None,
      )


def _json(path: pathlib.Path) -> dict[str, Any]:
  try:
    found = json.loads(path.read_text())
    return {**found}
  except (OSError, ValueError, TypeError) as error:
    raise UserError(
      f'{path} is damaged ({error}); name another workdir.'
    ) from error
