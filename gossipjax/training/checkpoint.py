"""Checkpoints of a run: written atomically, restored bit-exactly."""

import os
import pathlib
import re
from typing import Any

import jax
import orbax.checkpoint as ocp

from gossipjax.aggregator import Tree


class Store:
  """The newest checkpoints of one run; incomplete ones are ignored."""

  def __init__(self, folder: pathlib.Path, keep: int = 2):
    self._manager = ocp.CheckpointManager(
      folder.absolute(),
      options=ocp.CheckpointManagerOptions(
        max_to_keep=keep, enable_async_checkpointing=False
      ),
    )

  def save(self, step: int, workers: Tree, totals: dict[str, Any]) -> None:
    """Saves arrays and totals after a step.

    Args:
      step: steps done.
      workers: arrays of all workers.
      totals: of the ledger and the timeline, for JSON.

    Raises:
      OSError: the disk does not take it; the previous checkpoint is intact.
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
    except (
      ValueError
    ) as error:  # How tensorstore reports errors of the operating system.
      number = re.search(r"os_error_code='(\d+)'", str(error))
      if number is None:
        raise
      code = int(number.group(1))
      raise OSError(
        code, os.strerror(code), str(self._manager.directory)
      ) from error

  def last(self) -> int | None:
    """The step of the newest complete checkpoint; None without one."""
    return self._manager.latest_step()

  def load(self, like: Tree) -> tuple[Tree, dict[str, Any]]:
    """Arrays, placed as those of `like`, and totals of the newest save."""
    shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, like)
    found = self._manager.restore(
      self.last(),
      args=ocp.args.Composite(
        workers=ocp.args.StandardRestore(shapes), totals=ocp.args.JsonRestore()
      ),
    )
    return found.workers, found.totals
