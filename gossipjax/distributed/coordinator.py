"""Joins the processes at process 0, for which the others wait."""

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

from gossipjax.distributed.constants import PEER_LOST
from gossipjax.errors import UserError

PATIENCE_S = 10  # Of waiting, before a message says so.


def join_processes(
  coordinator: str | None,
  many: int | None,
  number: int | None,
  limit_s: int,
  heartbeat_s: int,
) -> None:
  """Joins the other processes; prints a message if it has to wait for them.

  Args:
    coordinator, many, number: host:port of process 0, number of processes, and
      index of this one; None where SLURM or Open MPI 4 gives them.
    limit_s: for all to join; after that, this process ends at once.
    heartbeat_s: of silence, after which a process counts as lost.

  Raises:
    UserError: nothing says which the other processes are, or the address of
      process 0 is invalid or in use.
    SystemExit: process 0 does not answer.
  """
  name = 'This process' if number is None else f'Process {number}'
  flags = {'--coordinator': coordinator, '--num_processes': many}
  if text := ' '.join(f'{k}={v}' for k, v in flags.items() if v is not None):
    name = f'{name} ({text})'
  if number or coordinator is not None:
    _meet(name, coordinator or '', number, limit_s)
  message = (
    f'{name}: the others did not all come within --step_timeout_s={limit_s}. '
    'Is each of them running, with the same --coordinator and --num_processes '
    'and a --process_id of its own?'
  )
  try:
    with _patience(name, limit_s, message):
      jax.distributed.initialize(
        coordinator,
        many,
        number,
        # Process 0 listens here only; by default JAX uses all interfaces.
        coordinator_bind_address=coordinator,
        heartbeat_timeout_seconds=heartbeat_s,
        initialization_timeout=limit_s + 60,  # At its end JAX would abort.
      )
  except ValueError as error:
    raise UserError(
      f'--distributed: {error} Give --coordinator=host:port '
      '--num_processes=N --process_id=I, or run under SLURM or Open '
      'MPI 4.'
    ) from error


def _meet(
  name: str, coordinator: str, number: int | None, limit_s: float
) -> None:
  """Waits until process 0 can listen, or does: JAX would abort otherwise.

  Args:
    name: this process, and its flags.
    coordinator: host:port of process 0.
    number: of this process; None if that is not known yet.
    limit_s: of waiting.

  Raises:
    UserError: it is not an address, or process 0 cannot listen there.
    SystemExit: process 0 does not answer.
  """
  place = _place(coordinator)
  if number:
    with _patience(name, limit_s):
      _wait_for(coordinator, place, limit_s)
  elif number == 0:
    # In Kubernetes the name may become known after the process has started.
    with _patience(name, limit_s, what=f'an address of {place[0]}'):
      _check_listens(coordinator, place, limit_s)


@contextlib.contextmanager
def _patience(
  name: str, limit_s: float, message: str = '', what: str = 'the others'
) -> Iterator[None]:
  """Prints after a while that a process waits; ends it if it waits too long.

  Args:
    name: the process, and its flags.
    limit_s: of waiting.
    message: printed after that time, when the process ends; '' if what it
      waits for has a limit of its own.
    what: it waits for.
  """

  def leave():
    print(message, file=sys.stderr, flush=True)
    os._exit(PEER_LOST)

  notice = f'{name} waits for {what}, up to {limit_s:g} s.'
  notify = lambda: print(notice, file=sys.stderr, flush=True)
  timers = [threading.Timer(PATIENCE_S, notify)]
  timers += [threading.Timer(limit_s, leave)] if message else []
  for timer in timers:
    timer.daemon = True
    timer.start()
  try:
    yield
  finally:
    for timer in timers:
      timer.cancel()


def _check_listens(
  coordinator: str, place: tuple[str, int], limit_s: float
) -> None:
  """Checks that this process can listen at its address."""
  find = lambda: socket.getaddrinfo(*place, type=socket.SOCK_STREAM)
  try:
    ((family, kind, _, _, address), *_) = _retried(
      find, socket.gaierror, limit_s
    )
    with socket.socket(family, kind) as probe:
      # Connections of an earlier run may linger.
      probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
      probe.bind(address)
      probe.listen()
  except OSError as error:
    unknown = isinstance(error, socket.gaierror)
    reason = 'the name is not known on this host' if unknown else error.strerror
    raise UserError(
      f'--coordinator={coordinator}: process 0 cannot listen there ({reason}); '
      'give another port, or an address of its host. `launch` draws a port '
      'each time: start it again.'
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


def _wait_for(coordinator: str, place: tuple[str, int], limit_s: float) -> None:
  """Waits until process 0 listens."""
  connect = lambda: socket.create_connection(place, timeout=5).close()
  try:
    _retried(connect, OSError, limit_s)
  except OSError as error:
    print(
      f'--coordinator={coordinator}: nobody answers there '
      f'({error}); is process 0 running, and the port open?',
      file=sys.stderr,
    )
    sys.exit(PEER_LOST)


def _retried(
  action: Callable[[], Any], failure: type[Exception], limit_s: float
) -> Any:
  """Calls until the `failure` is over; raises it after `limit_s`."""
  until = time.monotonic() + limit_s
  while True:
    try:
      return action()
    except failure:
      if time.monotonic() > until:
        raise
      time.sleep(0.2)
