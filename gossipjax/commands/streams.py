"""Output that is closed or full, has no reader, or lacks some characters."""

import os
import select
import sys
from typing import TextIO


def prepare() -> None:
  """Opens closed streams to the null device; unknown characters become '?'."""
  for name in ('stdout', 'stderr'):
    stream = getattr(sys, name)
    if stream is None:
      setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), 'w'))
    elif hasattr(stream, 'reconfigure'):
      stream.reconfigure(errors='replace')


def nobody_reads() -> bool:
  """Whether the reader of stdout has gone; stdout is then discarded."""
  pipe = select.poll()
  pipe.register(sys.stdout.fileno(), 0)
  gone = any(event & select.POLLERR for _, event in pipe.poll(0))
  if gone:
    _to_nowhere(sys.stdout)
  return gone


def print_line(line: str) -> None:
  """Prints a line on stderr; after a failure, this and later lines are lost."""
  try:
    print(line, file=sys.stderr, flush=True)
  except OSError:  # A full disk, or nobody reads.
    _to_nowhere(sys.stderr)


def _to_nowhere(stream: TextIO) -> None:
  os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
