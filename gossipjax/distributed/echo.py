"""What the processes of a launcher say, with their numbers in front."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO

# What C++ leaves behind when it gives up; its reason stands before it.
_STACK = re.compile(r'\s+@\s+0x[0-9a-f]+ |\*\*\* Check failure stack trace')


class Echo:
  """Prints what a process says, in a thread of its own.

  It reads on when nothing can be printed any more: a process whose pipe is full
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
      silent_s: of the pipe, after which nothing more is waited for: a process
        that the other one has left behind may hold it open for long.
    """
    began = time.monotonic()
    while self._thread.is_alive():
      self._thread.join(0.1)
      since = self._waits_since
      # Who reads what is printed may take longer.
      if since and time.monotonic() - max(began, since) > silent_s:
        return

  def _print(self) -> None:
    for line in self._process.stdout:
      self._waits_since = None
      text = line.decode(errors='replace').rstrip('\n')
      if not _STACK.match(text):
        self.lost |= not said(f'[{self._number}] {text}', sys.stdout)
      self._waits_since = time.monotonic()


def end(echoes: Sequence[Echo], silent_s: float) -> None:
  """Ends all, see `Echo.end`, and says so if something is lost."""
  for echo in echoes:
    echo.end(silent_s)
  if any(echo.lost for echo in echoes):
    said(
      'Not all that the processes said could be printed; make room on the '
      'disk that takes the output.',
      sys.stderr,
    )


def said(text: str, stream: IO[str]) -> bool:
  """Prints a line; after an error, this and all that follows goes to nowhere.

  Returns:
    False if the disk, or whatever takes the line, failed; that its reader has
    gone is no failure.
  """
  try:
    # In one piece: threads of other processes write here, too.
    stream.write(f'{text}\n')
    stream.flush()
  except OSError as error:
    # What the buffer keeps would fail once more when Python ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return isinstance(error, BrokenPipeError)
  return True
