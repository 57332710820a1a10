"""The command line of this package; see its docstring."""

import argparse
import importlib
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Sequence

import jax

from benchmarks import accelerator
from benchmarks.accelerator import children, eight_gpus, measures
from gossipjax import executors
from gossipjax.commands import console
from gossipjax.distributed import gpus
from gossipjax.errors import USER_ERROR_EXIT, UserError, nearest

# In the order in which a call without names makes them.
PARTS = ('laws', 'selection', 'compiled', 'throughput', 'traces', 'training')
# Parts whose measures are not timings and mostly compile, on one core: several
# processes make them in parallel.
SHARED = ('laws', 'compiled')
WITHOUT_GPU = ('compiled',)
MAX_PROCESSES = 8  # Processes of a part: each takes 0.5 GB of a GPU.
TIMED_OUT = 3  # Exit code of a call that its time limit ended.
GRACE_S = 15  # Seconds after its time within which a part has to end.


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
  """The flags of the command.

  Raises:
    UserError: an unknown part, or minutes or processes that are not positive.
  """
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.accelerator',
    description=accelerator.__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('parts', nargs='*', metavar='PART', help=', '.join(PARTS))
  parser.add_argument('--out', required=True, type=pathlib.Path, metavar='DIR')
  parser.add_argument('--minutes', type=float, default=9.0, help='of this call')
  parser.add_argument('--processes', type=int, help=f'of {", ".join(SHARED)}')
  parser.add_argument('--here', type=int, help=argparse.SUPPRESS)
  parser.add_argument('--rehearse', action='store_true', help='small, on a CPU')
  parser.add_argument('--summary', action='store_true', help='tables only')
  flags = parser.parse_args(words)
  for part in flags.parts:
    if part not in PARTS:
      raise UserError(f'{part!r} is no part{nearest(part, PARTS)}')
  if flags.minutes <= 0:
    raise UserError(f'--minutes must be above 0, got {flags.minutes:g}.')
  if flags.processes is not None and flags.processes < 1:
    raise UserError(f'--processes must be at least 1, got {flags.processes}.')
  flags.parts = flags.parts or [*PARTS]
  return flags


def main() -> None:
  """Makes missing measures, or with --summary writes tables of those made."""
  flags = None
  try:
    flags = arguments()
    if flags.summary:
      _summarise(flags)
    elif flags.here is not None:
      _make(flags.parts[0], flags)
    else:
      signal.signal(signal.SIGTERM, lambda *_: sys.exit(TIMED_OUT))
      _each_in_processes(flags)
  except UserError as error:
    if flags and flags.here:  # The first of several processes reports it.
      sys.exit(USER_ERROR_EXIT)
    console.refuse(str(error), error)


def _module(part: str):
  return importlib.import_module(f'benchmarks.accelerator.{part}')


def _choose(platforms: str) -> None:
  """Sets JAX's platforms, also for tests and trainings that are started."""
  os.environ['JAX_PLATFORMS'] = platforms
  jax.config.update('jax_platforms', platforms)


def _summarise(flags: argparse.Namespace) -> None:
  _choose('cpu')
  modules = {name: _module(name) for name in flags.parts}
  print(_module('summary').write(flags.out, modules))


def _each_in_processes(flags: argparse.Namespace) -> None:
  """Runs one part after the other, each in processes with flags and memory of
  their own.

  Each part may take its share of the time that is left, so that every part is
  tried. A part that crashed is started again; the measure that crashed it then
  comes last.
  """
  clock = measures.Clock(flags.minutes)
  _keep_programs(flags.out)
  for done, part in enumerate(flags.parts):
    parts = len(flags.parts) - done
    share = measures.Clock(clock.left() / 60 / parts)
    crashed = True
    while crashed and share.left() > 0:
      codes = _in_processes(part, flags, share.left())
      if USER_ERROR_EXIT in codes:
        sys.exit(USER_ERROR_EXIT)
      crashed = any(code is not None and code < 0 for code in codes)


def _in_processes(
  part: str, flags: argparse.Namespace, left: float
) -> list[int | None]:
  """Exit codes of a part's processes; see `children.run`."""
  words = [part, f'--out={flags.out}', f'--minutes={left / 60:.3f}']
  words += ['--rehearse'] * flags.rehearse
  command = [sys.executable, '-m', 'benchmarks.accelerator', *words]
  numbers = range(_processes(part, flags))
  return children.run(
    [[*command, f'--here={n}'] for n in numbers], left + GRACE_S
  )


def _processes(part: str, flags: argparse.Namespace) -> int:
  """Returns the number of a part's processes; by default half the cores, as the
  others are for tests that a process starts."""
  if part not in SHARED:
    return 1
  default = (
    1 if flags.rehearse else min(MAX_PROCESSES, (os.cpu_count() or 1) // 2)
  )
  return flags.processes or max(1, default)


def _keep_programs(out: pathlib.Path) -> None:
  """Keeps compiled programs beside the results, shared by all processes."""
  folder = out.absolute().with_name(f'{out.absolute().name}-programs')
  for name, value in {
    'JAX_COMPILATION_CACHE_DIR': str(folder),
    'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0.3',
    'JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES': '-1',
  }.items():
    os.environ.setdefault(name, value)


def _make(part: str, flags: argparse.Namespace) -> None:
  """Makes the missing measures of one part, until the time is over."""
  clock = measures.Clock(flags.minutes)
  timer = threading.Timer(clock.left(), _end)
  timer.daemon = True
  timer.start()
  on_gpu = not flags.rehearse and part not in WITHOUT_GPU
  _choose('cuda,cpu' if on_gpu else 'cpu')
  # Tests, trainings and PyTorch share the device with this process.
  gpus.share_memory()
  if on_gpu:
    gpus.require()
  else:
    executors.emulate(8)
  module = _module(part)
  if part == 'training':
    lines = module.make_missing(flags.out, flags.rehearse, clock)
  else:
    wanted = module.measures(flags.rehearse)
    if flags.rehearse:
      wanted = measures.rehearsed(wanted)
    elif on_gpu:
      wanted = measures.of_device(wanted, jax.devices()[0].device_kind)
    else:
      eight_gpus.devices(small=False)  # Fails at once without CUDA.
    lines = measures.make_missing(flags.out, part, wanted, clock)
  for line in lines:
    print(line, flush=True)


def _end() -> None:
  """Ends the process in the middle of a measure; what was made is kept."""
  print('Time is up; the same command continues.', flush=True)
  children.end_mine(TIMED_OUT)


if __name__ == '__main__':
  main()
