"""The command; see the package."""

import argparse
import importlib
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Sequence

import jax

from benchmarks import accelerator
from benchmarks.accelerator import measures
from gossipjax import executors
from gossipjax.commands import console
from gossipjax.distributed import gpus
from gossipjax.errors import MISTAKE, UserError, nearest

# In the order in which a call without names makes them.
PARTS = ('laws', 'selection', 'compiled', 'throughput', 'traces', 'training')
OVER = 3  # Exit code of a call that its time limit ended.
CRASHED = -1  # Of a process that a signal ended.
GRACE = 15  # Seconds after its time in which a part has to have ended.


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
  """The flags of the command.

  Raises:
    UserError: a part that is none, or no time.
  """
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.accelerator',
    description=accelerator.__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('parts', nargs='*', metavar='PART', help=', '.join(PARTS))
  parser.add_argument('--out', required=True, type=pathlib.Path, metavar='DIR')
  parser.add_argument('--minutes', type=float, default=9.0, help='of this call')
  parser.add_argument('--rehearse', action='store_true', help='small, on a CPU')
  parser.add_argument('--summary', action='store_true', help='tables only')
  given = parser.parse_args(words)
  for part in given.parts:
    if part not in PARTS:
      raise UserError(f'{part!r} is no part{nearest(part, PARTS)}')
  if given.minutes <= 0:
    raise UserError(f'--minutes is above 0, got {given.minutes:g}.')
  given.parts = given.parts or [*PARTS]
  return given


def main() -> None:
  """Makes what is missing, or shows what there is."""
  try:
    given = arguments()
    if given.summary:
      _summarise(given)
    elif len(given.parts) == 1:
      _make(given.parts[0], given)
    else:
      _each_in_a_process(given)
  except UserError as error:
    console.refuse(str(error), error)


def _module(part: str):
  return importlib.import_module(f'benchmarks.accelerator.{part}')


def _choose(platforms: str) -> None:
  """Of this process, and of tests and trainings that it starts."""
  os.environ['JAX_PLATFORMS'] = platforms
  jax.config.update('jax_platforms', platforms)


def _summarise(given: argparse.Namespace) -> None:
  _choose('cpu')
  modules = {name: _module(name) for name in given.parts}
  print(_module('summary').write(given.out, modules))


def _each_in_a_process(given: argparse.Namespace) -> None:
  """One part after the other: flags and memory are those of a process.

  Each part may take an equal share of the time that is left, so that every one
  is tried. One that crashed goes on, and what crashed it comes last.
  """
  clock = measures.Clock(given.minutes)
  for done, part in enumerate(given.parts):
    share = measures.Clock(clock.left() / 60 / (len(given.parts) - done))
    ended = CRASHED
    while ended == CRASHED and share.left() > 0:
      ended = _in_a_process(part, given, share.left())
    if ended == MISTAKE:
      sys.exit(ended)


def _in_a_process(part: str, given: argparse.Namespace, left: float) -> int:
  """A part's exit code; CRASHED by a signal, OVER if it did not end itself."""
  words = [part, f'--out={given.out}', f'--minutes={left / 60:.3f}']
  words += ['--rehearse'] * given.rehearse
  command = [sys.executable, '-m', 'benchmarks.accelerator', *words]
  try:
    ended = subprocess.run(command, timeout=left + GRACE).returncode
  except subprocess.TimeoutExpired:
    return OVER
  return CRASHED if ended < 0 else ended


def _make(part: str, given: argparse.Namespace) -> None:
  """The measures of one part that are missing, until the time is over."""
  clock = measures.Clock(given.minutes)
  timer = threading.Timer(clock.left(), _end)
  timer.daemon = True
  timer.start()
  _choose('cpu' if given.rehearse else 'cuda,cpu')
  # Tests, trainings and PyTorch share the device with this process.
  os.environ.setdefault('XLA_PYTHON_CLIENT_PREALLOCATE', 'false')
  module = _module(part)
  if not given.rehearse:
    flags = getattr(module, 'FLAGS', '')
    # Some versions take flags that are only a space for a file's name.
    both = f'{os.environ.get("XLA_FLAGS", "")} {flags}'.strip()
    os.environ['XLA_FLAGS'] = both
    gpus.require()
  else:
    executors.emulate(8)
  if part == 'training':
    lines = module.make_missing(given.out, given.rehearse, clock)
  else:
    lines = measures.make_missing(
      given.out, part, module.measures(given.rehearse), clock
    )
  for line in lines:
    print(line, flush=True)


def _end() -> None:
  """Ends the process in the middle of a measure; what was made is kept."""
  print('The time is over; the same command goes on.', flush=True)
  os._exit(OVER)


if __name__ == '__main__':
  main()
