"""Standard output and error that may be closed, or know few characters."""

import os
import select
import sys


def prepare() -> None:
  """Opens what is closed, to nowhere; shows '?' for what has no character."""
  for name in ('stdout', 'stderr'):
    stream = getattr(sys, name)
    if stream is None:
      setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), 'w'))
    elif hasattr(stream, 'reconfigure'):
      stream.reconfigure(errors='replace')


def nobody_reads() -> bool:
  """Whether whoever read the output has gone; then it goes to nowhere."""
  pipe = select.poll()
  pipe.register(sys.stdout.fileno(), 0)
  gone = any(event & select.POLLERR for _, event in pipe.poll(0))
  if gone:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
  return gone
