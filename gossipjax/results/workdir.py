"""The folder of a comparison: whose it is, and what is written into it.

config.json                 the config, versions, commit, devices
<variant>/records.jsonl     one record a line
<variant>/checkpoints/      orbax
<variant>/summary.json      there when the variant is finished
<variant>/timeline.json     of virtual time: what workers did at first
summary.json comparison.md report.html *.png
"""

import json
import os
import pathlib
import platform
import subprocess
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

import jax

from gossipjax.errors import UserError
from gossipjax.results.reader import SCHEMA
from gossipjax.training.checkpoint import Store
from gossipjax.training.ledger import Diverged
from gossipjax.training.record import Record

PACKAGES = ('jax', 'jaxlib', 'flax', 'optax', 'numpy', 'orbax-checkpoint')


def _half(path: pathlib.Path) -> pathlib.Path:
  return path.with_name(f'.{path.name}.half')


def write(path: pathlib.Path, text: str) -> None:
  """Writes a whole file or nothing."""
  half = _half(path)
  half.write_text(text)
  os.replace(half, path)


def needs(folder: pathlib.Path) -> None:
  """Refuses to continue what never began."""
  if not folder.exists():
    raise UserError(
      f'--workdir={folder} is not there, so there is nothing to '
      '--resume; leave that out, or name the folder of the run.'
    )


def claim(folder: pathlib.Path, config, resume: bool) -> None:
  """Makes the folder this config's own, or refuses; overwrites nothing."""
  found, wanted = folder / 'config.json', json.loads(config.to_json())
  if folder.exists() and not folder.is_dir():
    raise UserError(f'--workdir={folder} is a file; name a folder.')
  if found.exists():
    theirs = _read(found)
    if theirs != wanted:
      raise UserError(
        f'--workdir={folder} holds a run of another config (they differ in '
        f'{", ".join(_differences(theirs, wanted))}); name another folder.'
      )
    if not resume:
      raise UserError(
        f'--workdir={folder} already holds a run of this config; '
        '--resume continues it, another folder starts anew.'
      )
    return
  # Somebody may have been stopped while claiming it.
  if folder.exists() and {*folder.iterdir()} - {_half(found)}:
    raise UserError(
      f'--workdir={folder} is not empty and holds no run; name another folder.'
    )
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise UserError(
      f'--workdir={folder} cannot be made: {error.strerror}.'
    ) from error
  write(found, json.dumps({'config': wanted, **provenance()}, indent=2))


def _read(path: pathlib.Path) -> Any:
  try:
    return json.loads(path.read_text())['config']
  except (OSError, ValueError, LookupError, TypeError) as error:
    raise UserError(
      f'{path} is damaged ({error}); remove its folder or name another.'
    ) from error


def _differences(a: Any, b: Any, key: str = 'config') -> Iterator[str]:
  if not isinstance(a, dict) or not isinstance(b, dict):
    yield key
    return
  for k in sorted({*a, *b}):
    if a.get(k) != b.get(k):
      yield from _differences(a.get(k), b.get(k), f'{key}.{k}')


def provenance() -> dict[str, Any]:
  """What ran where: form of the files, commit, versions, devices."""
  git = ('git', '-C', os.path.dirname(__file__))
  try:
    commit = subprocess.check_output(
      [*git, 'rev-parse', 'HEAD'], text=True, stderr=subprocess.DEVNULL
    )
    dirty = subprocess.check_output([*git, 'status', '--porcelain'], text=True)
  except (OSError, subprocess.CalledProcessError):
    commit, dirty = 'unknown', ''
  return {
    'schema': SCHEMA,
    'commit': commit.strip() + (' (modified)' if dirty.strip() else ''),
    'python': platform.python_version(),
    'versions': {name: metadata.version(name) for name in PACKAGES},
    'devices': [str(d) for d in jax.devices()],
    'cores': os.cpu_count(),
  }


def keep_records(path: pathlib.Path, until: int) -> None:
  """Forgets records after step `until`, and a line that was cut short."""
  path.touch()
  lines = path.read_text().splitlines(keepends=True)
  write(
    path,
    ''.join(
      line
      for number, line in enumerate(lines, 1)
      if line.endswith('\n') and _step(path, number, line) <= until
    ),
  )


def _step(path: pathlib.Path, number: int, line: str) -> int:
  try:
    return json.loads(line)['step']
  except (ValueError, LookupError, TypeError) as error:
    raise UserError(
      f'{path}, line {number} is no record ({error}); delete the '
      'line, or the folder of the variant.'
    ) from error


def told_divergence(error: Diverged, store: Store) -> str:
  """What it says, and which checkpoint is left."""
  step = store.last()
  return (
    f'{error} The checkpoint of step {step} is kept.' if step else (str(error))
  )


def append(path: pathlib.Path, record: Record) -> None:
  """One more line of JSON."""
  with path.open('a') as file:
    file.write(json.dumps(told(record)) + '\n')


def told(record: Record) -> dict[str, Any]:
  """Its fields, without those that only virtual time knows where it is not."""
  return {
    key: value
    for key, value in record._asdict().items()
    if value is not None or key not in Record._field_defaults
  }


def records(path: pathlib.Path) -> Iterable[dict[str, Any]]:
  """The records of one run."""
  return [json.loads(line) for line in path.read_text().splitlines()]
