"""Starts several processes on this host that train together.

    python -m gossipjax launch --processes=4 -- \\
        --config=configs/quickstart.py

starts `python -m gossipjax run --distributed` four times, each with the words
after `--`, and with four workers unless --config.workers is given. Each line of
output begins with the number of its process. On SIGINT, SIGTERM or SIGHUP all
processes stop after the same step, with a checkpoint. When one process dies or
hangs, all end; when the launcher is killed, they stop, too.
"""

import argparse
import re
import sys
from collections.abc import Sequence

from gossipjax.commands import streams
from gossipjax.distributed import launcher, ports
from gossipjax.distributed.constants import HEARTBEAT_S
from gossipjax.errors import USER_ERROR_EXIT, UserError

# Flags of `run` that tell a process about the others; the launcher sets them.
_SET_BY_LAUNCHER = 'distributed', 'coordinator', 'num_processes', 'process_id'


def start(words: Sequence[str]) -> None:
  """Starts the processes and waits for them.

  Raises:
    SystemExit: with 0, or the exit code of the first process that failed; 2 if
      that many processes cannot be started.
  """
  streams.prepare()
  parser = argparse.ArgumentParser(
    prog='python -m gossipjax launch',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('--processes', type=int, required=True, help='how many')
  parser.add_argument('arguments', nargs='*', help='of `run`, after --')
  cut = [*words, '--'].index('--')
  options, unknown = parser.parse_known_args(words[:cut])
  if unknown := [*options.arguments, *unknown]:
    parser.error(
      f'{unknown[0]} is no flag of launch; flags of `run` come after --, as in '
      f'launch --processes={options.processes} -- {unknown[0]}'
    )
  options.arguments = [*words[cut + 1 :]]
  if options.processes < 1:
    parser.error(f'--processes must be at least 1, got {options.processes}.')
  for flag in _SET_BY_LAUNCHER:
    if _given(flag, options.arguments):
      parser.error(f'launch sets --{flag} itself; leave it out.')
  words = launcher.with_workers(options.arguments, options.processes)
  try:
    with ports.reserved() as port:
      code = launcher.run(
        [
          launcher.command(words, options.processes, i, f'127.0.0.1:{port}')
          for i in range(options.processes)
        ],
        heartbeat_s=_number('heartbeat_s', words, HEARTBEAT_S),
        devices=_devices(words, options.processes),
      )
  except UserError as error:
    parser.exit(USER_ERROR_EXIT, f'{error}\n')
  sys.exit(code)


def _devices(words: Sequence[str], processes: int) -> int:
  """The number of devices of each process: those of all of its workers."""
  workers = _number('config.workers', words, processes)
  per_worker = max(1, _number('config.devices_per_worker', words, 1))
  return workers * per_worker // processes


def _number(flag: str, words: Sequence[str], default: int) -> int:
  """The value of a flag among the arguments of `run`."""
  found = re.findall(rf'(?:^| ){_pattern(flag)}[= ]([0-9]+)', ' '.join(words))
  return int(found[-1]) if found else default


def _given(flag: str, words: Sequence[str]) -> bool:
  """Whether a flag is among the arguments of `run`."""
  return any(re.fullmatch(rf'{_pattern(flag)}(=.*)?', word) for word in words)


def _pattern(flag: str) -> str:
  """A regular expression of the ways to write a flag."""
  return '--?' + re.escape(flag).replace('_', '[-_]')
