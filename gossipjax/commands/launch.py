"""Starts several processes on this host that train together.

    python -m gossipjax launch --processes=4 -- \\
        --config=configs/quickstart.py --config.workers=4

starts `python -m gossipjax run --distributed` four times, each with what
follows `--`. Their output comes through with the number of the process in
front. SIGINT and SIGTERM are passed on: all stop after the same step, with a
checkpoint. When one process dies, all end.
"""

import argparse
import sys
from collections.abc import Sequence

from gossipjax.distributed import launcher


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
    parser.error(f'--processes is at least 1, got {given.processes}.')
  coordinator = f'127.0.0.1:{launcher.free_port()}'
  sys.exit(
    launcher.run(
      launcher.command(given.arguments, given.processes, i, coordinator)
      for i in range(given.processes)
    )
  )
