"""Checks that processes that train together see the same folder."""

import os
import pathlib
import secrets
import time

import jax
import numpy as np
from jax.experimental import multihost_utils

from gossipjax.distributed import processes
from gossipjax.errors import USER_ERROR_EXIT, UserError

PATIENCE_S = 5  # Until a file of one host is seen on the others.


def check(folder: pathlib.Path) -> None:
  """Checks that a folder is the same for all processes; alone, does nothing.

  The first process writes a file into the nearest folder that exists already;
  all look for it, and the first removes it.

  Args:
    folder: that the first process will write, and all will read.

  Raises:
    UserError: a process sees another folder; in that process and the first. Or
      the first cannot write there. The other processes end at once.
  """
  if not processes.distributed():
    return
  paths = [folder.absolute(), *folder.absolute().parents]
  depth = processes.broadcast_from_first(
    lambda: next(i for i, path in enumerate(paths) if path.exists())
  )
  number = processes.broadcast_from_first(lambda: secrets.randbelow(2**31))
  mark = paths[min(depth, len(paths) - 1)] / f'.gossipjax.{number}'
  processes.run_in_first(lambda: _write(mark, folder))
  try:
    sees = multihost_utils.process_allgather(np.int32(_appears(mark)))
  finally:
    if processes.is_first():
      mark.unlink(missing_ok=True)
  if sees.all():
    return
  if processes.is_first() or not sees[jax.process_index()]:
    raise UserError(
      f'Process {sees.argmin()} does not see --workdir={folder} of process 0: '
      'name a folder that is the same for all processes, by its whole path, on '
      'a file system that all hosts share.'
    )
  processes.leave(USER_ERROR_EXIT)


def _write(mark: pathlib.Path, folder: pathlib.Path) -> None:
  try:
    mark.touch()
  except OSError as error:
    raise UserError(
      f'--workdir={folder} cannot be written: {error.strerror}.'
    ) from error


def _appears(mark: pathlib.Path) -> bool:
  """Whether a file is seen; on a network's file system it takes a moment."""
  until = time.monotonic() + PATIENCE_S
  while not (seen := os.path.exists(mark)) and time.monotonic() < until:
    time.sleep(0.1)
  return seen
