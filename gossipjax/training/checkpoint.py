"""Checkpoints of a run: written atomically, verified, restored bit-exactly.

<step>/workers/       arrays of all workers, by orbax
<step>/totals.json    of the ledger and the timeline
<step>/records.jsonl  the records up to this step
<step>/manifest.json  SHA-256 of every file above, written last
.<step>.half/         a checkpoint that is being written, or was abandoned
"""

import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable
from typing import Any

import jax
import orbax.checkpoint as ocp

from gossipjax.aggregator import Tree
from gossipjax.distributed import processes
from gossipjax.training import checkpoint_form, durable_files, model_file

TOTALS = 'totals.json'


def newest(folder: pathlib.Path) -> pathlib.Path | None:
  """The newest intact checkpoint in a folder; None without one."""
  places = (folder / str(step) for step in reversed(_steps(folder)))
  intact = (place for place in places if not durable_files.damage(place))
  return next(intact, None)


def _steps(folder: pathlib.Path) -> list[int]:
  """The steps of the checkpoints in a folder, in order."""
  paths = folder.glob('[0-9]*')
  return sorted(int(path.name) for path in paths if path.name.isdigit())


class Store:
  """The newest checkpoints of one run.

  Attributes:
    damaged: a sentence about each checkpoint that is not as it was written;
      such a checkpoint is not used. It stays until the run has passed its step.
  """

  def __init__(
    self,
    folder: pathlib.Path,
    records: pathlib.Path | None = None,
    keep: int = 2,
  ):
    """Verifies the checkpoints in a folder, and removes abandoned ones.

    Args:
      folder: of the checkpoints of one run.
      records: file of the run's records, of which each checkpoint keeps a copy.
      keep: how many checkpoints, at most.
    """
    self._folder, self._records, self._keep = folder.absolute(), records, keep
    self.damaged: list[str] = []
    self._useless: set[int] = set()
    self._checkpointer = ocp.Checkpointer(ocp.StandardCheckpointHandler())
    self._last = processes.broadcast_from_first(self._newest_intact)

  def _newest_intact(self) -> int:
    for half in self._folder.glob('.*.half'):
      shutil.rmtree(half)
    for step in reversed(_steps(self._folder)):
      if not (fault := durable_files.damage(self._folder / str(step))):
        return step
      self._useless.add(step)
      self.damaged.append(
        f'{self._folder / str(step)} is damaged ({fault}) and is not used.'
      )
    return 0

  def save(self, step: int, workers: Tree, totals: dict[str, Any]) -> None:
    """Saves arrays, totals and records after a step.

    Args:
      step: steps done.
      workers: arrays of all workers.
      totals: of the ledger and the timeline, for JSON.

    Raises:
      OSError: writing to the disk fails; the previous checkpoint is intact.
    """
    half = self._folder / f'.{step}.half'
    try:
      if processes.is_first():
        durable_files.make(half)
      self._checkpointer.save(
        half / 'workers', args=ocp.args.StandardSave(workers)
      )
      if processes.is_first():
        self._publish(step, half, totals)
    except (OSError, ValueError) as error:
      shutil.rmtree(half, ignore_errors=True)
      raise self._of_the_system(error) from error
    self._last = step

  def _publish(
    self, step: int, half: pathlib.Path, totals: dict[str, Any]
  ) -> None:
    (half / TOTALS).write_text(json.dumps(totals))
    if self._records and self._records.exists():
      shutil.copyfile(self._records, half / self._records.name)
    durable_files.seal(half)
    place = self._folder / str(step)
    shutil.rmtree(place, ignore_errors=True)  # A damaged one.
    os.replace(half, place)
    durable_files.sync(self._folder)
    steps = [s for s in _steps(self._folder) if s <= step]
    self._useless.discard(step)
    damaged = [x for x in steps if x in self._useless]
    intact = [x for x in steps if x not in damaged]
    for old in damaged + intact[: -self._keep]:
      shutil.rmtree(self._folder / str(old))

  def _of_the_system(self, error: Exception) -> Exception:
    """The operating system's error that tensorstore reports as a ValueError."""
    number = re.search(r"os_error_code='(\d+)'", str(error))
    if isinstance(error, OSError):
      error.filename = error.filename or str(self._folder)
    if isinstance(error, OSError) or number is None:
      return error
    code = int(number.group(1))
    return OSError(code, os.strerror(code), str(self._folder))

  def keep(self, model: Callable[[], tuple[Tree, Tree]]) -> None:
    """Writes the trained model beside the records' file, if there is one.

    Raises:
      OSError: writing to the disk fails.
    """
    if self._records:
      trained = model()
      if processes.is_first():
        model_file.write(self._records.with_name(durable_files.MODEL), *trained)

  def last(self) -> int | None:
    """The step of the newest intact checkpoint; None without one."""
    return self._last or None

  def load(self, like: Tree) -> tuple[Tree, dict[str, Any]]:
    """Arrays, placed as those of `like`, and totals of the newest checkpoint.

    Raises:
      UserError: its arrays have other names, shapes or dtypes.
    """
    place = self._folder / str(self._last)
    checkpoint_form.check(place, like)
    shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, like)
    workers = self._checkpointer.restore(
      place / 'workers', args=ocp.args.StandardRestore(shapes)
    )
    return workers, json.loads((place / TOTALS).read_text())

  def records(self) -> bytes:
    """The records up to the newest checkpoint, as bytes of their file."""
    if not self._last:
      return b''
    path = self._folder / str(self._last) / self._records.name
    return path.read_bytes() if path.exists() else b''
