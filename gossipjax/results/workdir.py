"""The folder of a comparison: its files, and which config it belongs to.

config.json                 the config, versions, commit, devices, the command
<variant>/records.jsonl     one record per line, see record_file.py
<variant>/checkpoints/      verified, see training/checkpoint.py
<variant>/model.msgpack     the trained model, see training/model_file.py
<variant>/summary.json      written when the variant is finished
<variant>/timeline.json     virtual time only: each worker's first activities
summary.json                written when all variants are finished
manifest.json               SHA-256 of files in its folder, once finished
comparison.md report.html *.png   made from the files above, never read
log.txt                     what happened, in plain words; never read
.lock .holder               which process writes here, see lock.py
"""

import json
import pathlib
from typing import Any

import msgspec

from gossipjax.errors import UserError
from gossipjax.training.durable_files import (
  MANIFEST,
  MODEL,
  clear,
  damage,
  make,
  seal,
  sync,
  write,
)

SCHEMA = 1  # Of config.json, records.jsonl and summary.json together.
CONFIG, SUMMARY, TIMELINE = 'config.json', 'summary.json', 'timeline.json'
RESTORED = 'the same command with --resume writes it again'
RECORDS = 'records.jsonl'


def provenance() -> dict[str, Any]:
  """Schema of the files, commit, versions and devices of this process."""
  from gossipjax.results import provenance  # JAX: files are read without it.

  return {'schema': SCHEMA, **provenance.of_this_process()}


def claimed(folder: pathlib.Path) -> dict[str, Any]:
  """Reads config.json: `provenance`, and the config under 'config'.

  Raises:
    UserError: the file is missing, damaged, or of another program.
  """
  if not folder.is_dir():
    raise UserError(
      f'{folder} is not a folder; name the workdir of a comparison.'
    )
  if not (path := folder / CONFIG).exists():
    raise UserError(
      f'{folder} holds no run (there is no config.json); name the workdir of a '
      'comparison.'
    )
  found = read(path, dict[str, Any], 'name another folder')
  if not isinstance(config := found.get('config'), dict):
    raise UserError(f"{path} is damaged (no 'config'); name another folder.")
  # All versions have these keys; other programs have a config.json, too.
  strategy = config.get('strategy')
  ours = isinstance(strategy, dict) and isinstance(strategy.get('name'), str)
  if not ours or not {'workers', 'steps', 'seed'} <= config.keys():
    raise UserError(
      f'{folder} holds no run of gossipjax ({path} is of another program); '
      'name the workdir of a comparison.'
    )
  return found


def kind(folder: pathlib.Path, claim: dict[str, Any]) -> str:
  """The command that a folder belongs to: run, tune or advise.

  Args:
    folder: the workdir.
    claim: its config.json.
  """
  if command := claim.get('kind'):
    return command
  # Older versions did not write this key: their files tell the command.
  if any(folder.glob('pilots/*/*seed=*')):
    return 'advise'
  return 'tune' if any(folder.glob('*/*seed=*')) else 'run'


def write_summary(folder: pathlib.Path, summary: dict[str, Any]) -> None:
  """Writes the manifest, then summary.json of a comparison or a variant: what
  is finished has both, also if the process is killed between them."""
  (folder / SUMMARY).unlink(missing_ok=True)
  text = json.dumps(summary, indent=2)
  names = (CONFIG, RECORDS, TIMELINE, MODEL)
  found = [name for name in names if (folder / name).exists()]
  seal(folder, found, {SUMMARY: text})
  write(folder / SUMMARY, text)


def begin(folder: pathlib.Path) -> None:
  """Makes or reopens the folder of a variant that trains now; its comparison,
  one folder above, is reopened, too."""
  make(folder)
  reopen(folder.parent)
  reopen(folder)


def reopen(folder: pathlib.Path) -> None:
  """Removes the files that mark a comparison or a variant as finished, before
  others change: first the manifest, which would report damage otherwise; also
  partial files of a killed process."""
  for name in (MANIFEST, SUMMARY, MODEL):
    (folder / name).unlink(missing_ok=True)
  clear(folder)
  sync(folder)


def summary(folder: pathlib.Path, sealed: bool = True) -> dict[str, Any] | None:
  """summary.json of a comparison or a variant; None if it is not finished.

  Args:
    folder: of the comparison or the variant.
    sealed: whether all finished files have to match the manifest.

  Raises:
    UserError: summary.json is damaged, or a file does not match the manifest.
  """
  path, manifest = folder / SUMMARY, folder / MANIFEST
  manifest_version = _version(manifest)
  if not (version := _version(path)):
    return None
  try:
    found = read(path, dict[str, Any])
  except UserError:
    if _version(path) == version:
      raise
    return summary(folder, sealed)  # Another process is continuing the run.
  if sealed and manifest_version and (fault := damage(folder)):
    if _version(manifest) != manifest_version:
      return summary(folder, sealed)
    raise UserError(
      f'{folder}: {fault}, unlike when the run ended; --resume restores it '
      f'from a checkpoint, or delete {folder} to have it run again.'
    )
  return found


def _version(path: pathlib.Path) -> tuple[int, int] | None:
  """A value that changes when the file is written; None if there is no file."""
  try:
    status = path.stat()
  except FileNotFoundError:
    return None
  return status.st_ino, status.st_mtime_ns


def is_over(found: dict[str, Any], steps: int, cluster: Any) -> bool:
  """Whether a variant's summary is of a whole run, not of one of fewer steps.

  Args:
    found: the summary.
    steps: number of steps that the run has to take.
    cluster: of its config; virtual time may end earlier, at a target.
  """
  return bool(
    found.get('diverged') or cluster or found.get('steps', steps) >= steps
  )


def read(path: pathlib.Path, kind: Any, remedy: str = RESTORED) -> Any:
  """Reads a JSON file as a value of type `kind`.

  Raises:
    UserError: the file is damaged; the message ends with the remedy.
  """
  try:
    # Python's parser, because a summary may hold NaN.
    return msgspec.convert(json.loads(path.read_bytes()), kind)
  except (OSError, ValueError, RecursionError) as error:
    raise UserError(f'{path} is damaged ({error}); {remedy}.') from error
