"""Free TCP ports of this host, for a process 0 that is to be started."""

import contextlib
import socket
import sys
from collections.abc import Iterator


def free() -> int:
  """A port that is free now."""
  with reserved() as port:
    return port


@contextlib.contextmanager
def reserved() -> Iterator[int]:
  """A port that the system gives nobody else before the end of the context.

  JAX's coordinator can listen there, since it shares its port.
  """
  with socket.socket() as holder:
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(('127.0.0.1', 0))
    port = holder.getsockname()[1]
    if sys.platform != 'linux':  # Process 0 may be refused a shared port.
      holder.close()
    yield port
