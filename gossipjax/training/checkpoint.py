"""Where a run stands, on disk: atomic, and resumable to the last bit."""

import os
import pathlib
import re
from typing import Any

import jax
import orbax.checkpoint as ocp

from gossipjax.aggregator import Tree


class Store:
  """The last checkpoints of one run; a half-written one never counts."""

  def __init__(self, folder: pathlib.Path, keep: int = 2):
    self._manager = ocp.CheckpointManager(
      folder.absolute(),
      options=ocp.CheckpointManagerOptions(
        max_to_keep=keep, enable_async_checkpointing=False
      ),
    )

  def save(self, step: int, workers: Tree, totals: dict[str, Any]) -> None:
    """Keeps the workers' arrays and the ledger's totals (JSON) of a step.

    Raises:
      OSError: the disk does not take it; the last checkpoint is as it was.
    """
    try:
      self._manager.save(
        step,
        force=True,
        args=ocp.args.Composite(
          workers=ocp.args.StandardSave(workers),
          totals=ocp.args.JsonSave(totals),
        ),
      )
    except ValueError as error:  # How tensorstore reports the system's errors.
      number = re.search(r"os_error_code='(\d+)'", str(error))
      if number is None:
        raise
      code = int(number.group(1))
      raise OSError(
        code, os.strerror(code), str(self._manager.directory)
      ) from error

  def last(self) -> int | None:
    """The newest complete step, if there is one."""
    return self._manager.latest_step()

  def load(self, like: Tree) -> tuple[Tree, dict[str, Any]]:
    """The newest workers, placed as `like` is, and totals."""
    shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, like)
    found = self._manager.restore(
      self.last(),
      args=ocp.args.Composite(
        workers=ocp.args.StandardRestore(shapes), totals=ocp.args.JsonRestore()
      ),
    )
    return found.workers, found.totals
