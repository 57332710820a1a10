"""Joins the processes at process 0, for which the others wait."""

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator

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
      index of this one; None where SLURM or Open MPI gives them.
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
    _check(coordinator or '', listens=number == 0)
  if number:
    with _patience(name, limit_s):
      _wait_for(coordinator, limit_s)
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
      'MPI.'
    ) from error


@contextlib.contextmanager
def _patience(name: str, limit_s: float, message: str = '') -> Iterator[None]:
  """Prints after a while that a process waits; ends it if it waits too long.

  Args:
    name: the process, and its flags.
    limit_s: of waiting.
    message: printed after that time, when the process ends; '' if what it
      waits for has a limit of its own.
  """

  def leave():
    print(message, file=sys.stderr, flush=True)
    os._exit(PEER_LOST)

  notice = f'{name} waits for the others, up to {limit_s:g} s.'
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


def _check(coordinator: str, listens: bool) -> None:
  """Checks the address of process 0: JAX would abort if it is wrong.

  Args:
    coordinator: host:port.
    listens: whether this is process 0, which is to listen there.

  Raises:
    UserError: it is not an address, or process 0 cannot listen there.
  """
  place = _place(coordinator)
  if not listens:
    return
  try:
    ((family, kind, _, _, address), *_) = socket.getaddrinfo(
      *place, type=socket.SOCK_STREAM
    )
    with socket.socket(family, kind) as probe:
      # Connections of an earlier run may linger.
      probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
      probe.bind(address)
      probe.listen()
  except OSError as error:
    raise UserError(
      f'--coordinator={coordinator}: process 0 cannot listen there '
      f'({error.strerror}); give another port, or an address of its host. '
      '`launch` draws a port each time: start it again.'
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


def _wait_for(coordinator: str, timeout_s: float) -> None:
  """Waits until process 0 listens; otherwise JAX would abort this process."""
  place = _place(coordinator)
  until = time.monotonic() + timeout_s
  while True:
    try:
      socket.create_connection(place, timeout=5).close()
      return
    except OSError as error:
      if time.monotonic() > until:
        print(
          f'--coordinator={coordinator}: nobody answers there '
          f'({error}); is process 0 running, and the port open?',
          file=sys.stderr,
        )
        sys.exit(PEER_LOST)
      time.sleep(0.2)
