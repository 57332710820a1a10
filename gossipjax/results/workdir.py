"""The folder of a comparison: its files, and which config it belongs to.

config.json                 the config, versions, commit, devices
<variant>/records.jsonl     one record a line, see record_file.py
<variant>/checkpoints/      verified, see training/checkpoint.py
<variant>/summary.json      written when the variant is finished
<variant>/timeline.json     virtual time only: what each worker did at first
summary.json                written when all variants are finished
comparison.md report.html *.png   made from the files above, never read
.lock .holder               whoever writes here, see lock.py
"""

import contextlib
import json
import os
import pathlib
import platform
import subprocess
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any

import msgspec

from gossipjax.errors import UserError
from gossipjax.results import lock
from gossipjax.training.durable_files import partial, write

SCHEMA = 1  # Of config.json, records.jsonl and summary.json together.
CONFIG, SUMMARY, TIMELINE = 'config.json', 'summary.json', 'timeline.json'
RECORDS = 'records.jsonl'
PACKAGES = ('jax', 'jaxlib', 'flax', 'optax', 'numpy', 'orbax-checkpoint')


def needs(folder: pathlib.Path) -> None:
  """Checks that the folder of a run to be resumed exists.

  Raises:
    UserError: it does not.
  """
  if not folder.exists():
    raise UserError(
      f'--workdir={folder} does not exist, so there is nothing to '
      '--resume; leave that out, or name the folder of the run.'
    )


@contextlib.contextmanager
def claim(
  folder: pathlib.Path, config, resume: bool, higher: Sequence[str] = ()
) -> Iterator[None]:
  """Holds the folder of a comparison: creates it, or checks what it holds.

  Args:
    folder: the workdir; inside the context no other process writes into it.
    config: a ConfigDict; written to config.json with `provenance`.
    resume: whether the folder may hold this comparison already.
    higher: names of scores of which large values are good; written too.

  Raises:
    UserError: the folder holds something else, or this comparison although
      `resume` is False, or cannot be created, or another process writes into
      it. No file is overwritten.
  """
  wanted = json.loads(config.to_json())
  _check(folder, wanted, resume)
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise UserError(
      f'--workdir={folder} cannot be created: {error.strerror}.'
    ) from error
  with lock.hold(folder):
    _check(folder, wanted, resume)  # Another may have begun meanwhile.
    if not (path := folder / CONFIG).exists():
      told = {'config': wanted, 'higher_is_better': higher, **provenance()}
      write(path, json.dumps(told, indent=2))
    yield


def _check(folder: pathlib.Path, wanted: dict[str, Any], resume: bool) -> None:
  path = folder / CONFIG
  if folder.exists() and not folder.is_dir():
    raise UserError(f'--workdir={folder} is a file; name a folder.')
  if path.exists():
    _check_same(folder, wanted, resume)
    return
  # An earlier process may have been stopped while it wrote config.json.
  ours = {partial(path), *(folder / name for name in lock.FILES)}
  if folder.exists() and {*folder.iterdir()} - ours:
    raise UserError(
      f'--workdir={folder} is not empty and holds no run; name another folder.'
    )


def _check_same(
  folder: pathlib.Path, wanted: dict[str, Any], resume: bool
) -> None:
  found = claimed(folder)['config']
  if found != wanted:
    raise UserError(
      f'--workdir={folder} holds a run of another config (they differ in '
      f'{", ".join(_differences(found, wanted))}); name another folder.'
    )
  if not resume:
    raise UserError(
      f'--workdir={folder} already holds a run of this config; '
      '--resume continues it, another folder starts anew.'
    )


def _differences(a: Any, b: Any, key: str = 'config') -> Iterator[str]:
  """Dotted keys in which two configs differ."""
  if not isinstance(a, dict) or not isinstance(b, dict):
    yield key
    return
  for k in sorted({*a, *b}):
    if a.get(k) != b.get(k):
      yield from _differences(a.get(k), b.get(k), f'{key}.{k}')


def provenance() -> dict[str, Any]:
  """Schema of the files, commit, versions and devices of this process."""
  import jax  # Not above: files are read without it.

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


def claimed(folder: pathlib.Path) -> dict[str, Any]:
  """config.json: `provenance`, and under 'config' the config.

  Raises:
    UserError: there is none, or it is damaged.
  """
  if not folder.is_dir():
    raise UserError(f'{folder} is no folder; name the workdir of a comparison.')
  if not (path := folder / CONFIG).exists():
    raise UserError(
      f'{folder} holds no run (there is no config.json); name the workdir of a '
      'comparison.'
    )
  found = read(path, dict[str, Any])
  if not isinstance(found.get('config'), dict):
    raise UserError(f"{path} is damaged (no 'config'); name another folder.")
  return found


def write_summary(folder: pathlib.Path, summary: dict[str, Any]) -> None:
  """Writes summary.json of a comparison, or of a variant."""
  write(folder / SUMMARY, json.dumps(summary, indent=2))


def summary(folder: pathlib.Path) -> dict[str, Any] | None:
  """summary.json of a comparison or a variant; None if it is not finished.

  Raises:
    UserError: it is damaged.
  """
  path = folder / SUMMARY
  return read(path, dict[str, Any]) if path.exists() else None


def read(path: pathlib.Path, kind: Any) -> Any:
  """A file of JSON, of a type; raises a UserError if it is damaged."""
  try:
    # Python's parser, because a summary may hold NaN.
    return msgspec.convert(json.loads(path.read_bytes()), kind)
  except (OSError, ValueError) as error:
    raise UserError(
      f'{path} is damaged ({error}); name another folder, or run it again.'
    ) from error
