"""Process 0 is where the others meet; they wait until it listens."""

import socket
import time

from gossipjax.errors import UserError


def wait_for(coordinator: str | None, timeout_s: float) -> None:
  """Waits until process 0 listens; otherwise JAX would abort this process."""
  host, _, port = (coordinator or '').rpartition(':')
  if not (host and port.isdigit()):
    raise UserError(f'--coordinator={coordinator} is not host:port.')
  until = time.monotonic() + timeout_s
  while True:
    try:
      socket.create_connection((host, int(port)), timeout=5).close()
      return
    except OSError as error:
      if time.monotonic() > until:
        raise UserError(
          f'--coordinator={coordinator}: nobody answers there '
          f'({error}); is process 0 running, and the port open?'
        ) from error
      time.sleep(0.2)
