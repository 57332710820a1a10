"""One process writes into a workdir at a time.

.lock    locked by the operating system as long as that process lives
.holder  its process id and host, for the sentence that others get
"""

import contextlib
import json
import os
import pathlib
import socket
from collections.abc import Iterator

from filelock import FileLock, Timeout

from gossipjax.errors import UserError

FILES = ('.lock', '.holder')


@contextlib.contextmanager
def hold(folder: pathlib.Path) -> Iterator[None]:
  """Holds the lock of a workdir; that of a dead process is free.

  Args:
    folder: exists.

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
      f'--workdir={folder} is being written by {_who(holder)}; wait for its '
      'end, stop it, or name another folder.'
    ) from error


def _who(holder: pathlib.Path) -> str:
  try:
    found = json.loads(holder.read_bytes())
    return f'process {found["process"]} on host {found["host"]}'
  except (OSError, ValueError, LookupError, TypeError, RecursionError):
    return 'another process'
