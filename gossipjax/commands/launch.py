"""Starts several processes on this host that train together.

    python -m gossipjax launch --processes=4 -- \\
        --config=configs/quickstart.py

starts `python -m gossipjax run --distributed` four times, each with what
follows `--`, and four workers unless --config.workers says otherwise. Their
output comes through with the number of the process in front. SIGINT, SIGTERM
and SIGHUP are passed on: all stop after the same step, with a checkpoint. When
one process dies or hangs, all end; when the launcher is killed, they stop, too.
"""

import argparse
import re
import sys
from collections.abc import Sequence

from gossipjax.distributed import launcher
from gossipjax.distributed.constants import HEARTBEAT_S


def start(words: Sequence[str]) -> None:
  """Starts the processes and waits for them.

  Raises:
    SystemExit: with 0, or the exit code of the first process that failed.
  """
  parser = argparse.ArgumentParser(
    prog='python -m gossipjax launch',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('--processes', type=int, required=True, help='how many')
  parser.add_argument('arguments', nargs='*', help='of `run`, after --')
  given = parser.parse_args(words)
  if given.processes < 1:
    parser.error(f'--processes must be at least 1, got {given.processes}.')
  words = launcher.with_workers(given.arguments, given.processes)
  coordinator = f'127.0.0.1:{launcher.free_port()}'
  sys.exit(
    launcher.run(
      [
        launcher.command(words, given.processes, i, coordinator)
        for i in range(given.processes)
      ],
      heartbeat_s=_heartbeat_s(given.arguments),
    )
  )


def _heartbeat_s(words: Sequence[str]) -> float:
  """The value of --heartbeat_s among the arguments of `run`."""
  found = re.findall(r'--heartbeat[-_]s[= ]([0-9]+)', ' '.join(words))
  return float(found[-1]) if found else HEARTBEAT_S
