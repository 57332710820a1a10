"""Process 0 is where the others meet; they wait until it listens."""

import socket
import time

from gossipjax.errors import UserError


def check(coordinator: str, listens: bool) -> None:
  """Checks the address of process 0, at which JAX would abort.

  Args:
    coordinator: host:port.
    listens: whether this is process 0, which is to listen there.

  Raises:
    UserError: it is no such address, or process 0 cannot listen there.
  """
  place = _place(coordinator)
  if not listens:
    return
  try:
    ((family, kind, _, _, where), *_) = socket.getaddrinfo(
      *place, type=socket.SOCK_STREAM
    )
    with socket.socket(family, kind) as probe:
      # Connections of an earlier run may linger.
      probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
      probe.bind(where)
      probe.listen()
  except OSError as error:
    raise UserError(
      f'--coordinator={coordinator}: process 0 cannot listen there '
      f'({error.strerror}); give another port, or an address of its host.'
    ) from error


def _place(coordinator: str) -> tuple[str, int]:
  host, _, port = coordinator.rpartition(':')
  try:
    host = host.strip('[]')
    host.encode('idna')
    if host and port.isdecimal() and 1 <= int(port) <= 65535:
      return host, int(port)
  except UnicodeError:
    pass
  raise UserError(
    f'--coordinator={coordinator} is not host:port; name the host of process 0 '
    'and a port of 1 to 65535.'
  )


def wait_for(coordinator: str, timeout_s: float) -> None:
  """Waits until process 0 listens; otherwise JAX would abort this process."""
  place = _place(coordinator)
  until = time.monotonic() + timeout_s
  while True:
    try:
      socket.create_connection(place, timeout=5).close()
      return
    except OSError as error:
      if time.monotonic() > until:
        raise UserError(
          f'--coordinator={coordinator}: nobody answers there '
          f'({error}); is process 0 running, and the port open?'
        ) from error
      time.sleep(0.2)
