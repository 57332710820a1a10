"""Prints the output of a launcher's processes, with their numbers in front."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO

# Stack traces of C++, which are left out; the error is printed before them.
_STACK = re.compile(r'\s+@\s+0x[0-9a-f]+ |\*\*\* Check failure stack trace')


class Echo:
  """Prints the output of a process, in a thread of its own.

  It keeps reading when it can no longer print: a process whose pipe is full
  would wait for ever.

  Attributes:
    lost: whether something could not be printed.
  """

  def __init__(self, number: int, process: subprocess.Popen):
    self.lost, self._number, self._process = False, number, process
    self._waits_since: float | None = time.monotonic()  # None: it prints.
    self._thread = threading.Thread(target=self._print, daemon=True)
    self._thread.start()

  def end(self, silent_s: float) -> None:
    """Waits until all is printed.

    Args:
      silent_s: seconds without output, after which it stops waiting: a child
        that the process has left behind may hold the pipe open for long.
    """
    began = time.monotonic()
    while self._thread.is_alive():
      self._thread.join(0.1)
      since = self._waits_since
      # While it prints there is no limit: the reader may be slow.
      if since and time.monotonic() - max(began, since) > silent_s:
        return

  def _print(self) -> None:
    for line in self._process.stdout:
      self._waits_since = None
      text = line.decode(errors='replace').rstrip('\n')
      if not _STACK.match(text):
        self.lost |= not print_line(f'[{self._number}] {text}', sys.stdout)
      self._waits_since = time.monotonic()


def end(echoes: Sequence[Echo], silent_s: float) -> None:
  """Ends all, see `Echo.end`; prints a message if output was lost."""
  for echo in echoes:
    echo.end(silent_s)
  if any(echo.lost for echo in echoes):
    print_line(
      'Some output of the processes could not be written; free space on the '
      'disk that receives it.',
      sys.stderr,
    )


def print_line(text: str, stream: IO[str]) -> bool:
  """Prints a line; after an error, it and all further output is discarded.

  Returns:
    False if the line could not be written, as on a full disk; True also if the
    reader of a pipe has gone.
  """
  try:
    # In one write: the threads of other echoes print here, too.
    stream.write(f'{text}\n')
    stream.flush()
  except OSError as error:
    # Else Python would fail once more at its end, flushing the buffer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return isinstance(error, BrokenPipeError)
  return True
