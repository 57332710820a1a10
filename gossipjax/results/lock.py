"""Lets one process at a time write into a workdir.

.lock    locked by the operating system as long as the writing process lives
.holder  its process id and host, for the error message of other processes
"""

import contextlib
import json
import os
import pathlib
import socket
import time
from collections.abc import Iterator

from filelock import FileLock, Timeout

from gossipjax.errors import UserError

FILES = ('.lock', '.holder')
OVERWRITTEN_S = 1.0  # Time in which a new holder writes its name.


@contextlib.contextmanager
def hold(folder: pathlib.Path) -> Iterator[None]:
  """Holds the lock of a workdir; the lock of a dead process is free.

  Args:
    folder: an existing folder.

  Raises:
    UserError: another process holds it; names its id and host.
  """
  lock, holder = (folder / name for name in FILES)
  try:
    with FileLock(lock, timeout=0):
      holder.write_text(
        json.dumps({'process': os.getpid(), 'host': socket.gethostname()})
      )
      try:
        yield
      finally:
        holder.unlink(missing_ok=True)
  except Timeout as error:
    raise UserError(
      f'The folder {folder} is being written by {_who(holder)}; wait for its '
      'end, stop it, or name another folder.'
    ) from error


def _who(holder: pathlib.Path) -> str:
  """Names the process that holds the lock.

  A killed process leaves its name behind, and the next holder overwrites it
  only a moment after it has the lock. So the name of a dead process is ignored.
  """
  until = time.monotonic() + OVERWRITTEN_S
  while True:
    try:
      found = json.loads(holder.read_bytes())
      if found['host'] != socket.gethostname() or _lives(found['process']):
        return f'process {found["process"]} on host {found["host"]}'
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
      pass  # Not written yet, or not by this module.
    if time.monotonic() > until:
      return 'another process'
    time.sleep(0.05)


def _lives(process: int) -> bool:
  """Whether a process of this host runs."""
  try:
    os.kill(process, 0)
  except ProcessLookupError:
    return False
  except PermissionError:
    pass  # It is a process of another user.
  return True
