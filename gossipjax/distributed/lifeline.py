"""A socket between a launcher and each of its processes.

Each process sends a byte a second, so that the launcher sees which one hangs.
When the launcher dies, the operating system closes the socket: its processes
stop, with a checkpoint where they can, and end within END_S.
"""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Sequence

from gossipjax.distributed.constants import PEER_LOST

VARIABLE = 'GOSSIPJAX_LIFELINE'  # Number of the file descriptor.
BEAT_S = 1.0
END_S = 8.0


def hold() -> None:
  """Connects this process to its launcher, if it has one."""
  number = os.environ.pop(VARIABLE, None)
  if number is not None:
    os.set_inheritable(int(number), False)
    launcher = socket.socket(fileno=int(number))
    threading.Thread(target=_beat, args=(launcher,), daemon=True).start()


def _beat(launcher: socket.socket) -> None:
  launcher.settimeout(BEAT_S)
  with contextlib.suppress(OSError):
    while True:
      with contextlib.suppress(TimeoutError):
        launcher.send(b'.')
        if not launcher.recv(1):  # Nothing is ever sent: it is closed.
          break
  # To print into the launcher's pipe now would kill this process.
  nowhere = os.open(os.devnull, os.O_WRONLY)
  for output in (1, 2):
    os.dup2(nowhere, output)
  os.kill(os.getpid(), signal.SIGTERM)
  time.sleep(END_S)
  os._exit(PEER_LOST)


class Lifelines:
  """The launcher's ends of the sockets to its processes.

  Attributes:
    theirs: the processes' ends, to be passed on and then closed.
  """

  def __init__(self, processes: int):
    pairs = [socket.socketpair() for _ in range(processes)]
    self._ours, self.theirs = zip(*pairs, strict=True) if pairs else ((), ())
    for ours in self._ours:
      ours.setblocking(False)
    self._heard_at = [time.monotonic()] * processes

  def silent(self, limit_s: float) -> Sequence[int]:
    """Processes that have sent nothing for more than `limit_s`."""
    for i, ours in enumerate(self._ours):
      with contextlib.suppress(OSError):
        if ours.recv(4096):
          self._heard_at[i] = time.monotonic()
    now = time.monotonic()
    return [i for i, at in enumerate(self._heard_at) if now - at > limit_s]

  def close(self) -> None:
    """Closes the launcher's ends; processes that still run end."""
    for ours in self._ours:
      ours.close()
