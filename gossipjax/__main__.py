"""The command line: `python -m gossipjax COMMAND ...`."""

import importlib
import signal
import sys
from collections.abc import Sequence

from gossipjax.distributed import lifeline
from gossipjax.errors import USER_ERROR_EXIT, nearest

COMMANDS = {
  'run': 'train a model under one or several communication strategies',
  'advise': 'recommend a strategy for a link, from known runs and short trials',
  'tune': 'find the best learning rate, or other values, of each strategy',
  'report': 'write the table, figures and report.html of a workdir again',
  'launch': 'start several processes on this host that train together',
}
USAGE = '\n'.join(
  [
    'usage: python -m gossipjax COMMAND ...',
    '',
    'Compare communication strategies of data-parallel training.',
    '',
    *(f'  {name:8}{what}' for name, what in COMMANDS.items()),
    '',
    'python -m gossipjax COMMAND --help lists the flags of a command.',
  ]
)


def main(words: Sequence[str]) -> None:
  """Starts a command; only its module is imported, so only its flags exist.

  Args:
    words: the command's name and its arguments.

  Raises:
    SystemExit: with 2 if there is no such command.
  """
  # Imports take seconds, in which ctrl-C ends the process without a
  # traceback; the command replaces this.
  signal.signal(signal.SIGINT, signal.SIG_DFL)
  lifeline.hold()
  if not words or words[0] in ('-h', '-help', '--help', 'help'):
    print(USAGE)
  elif words[0] not in COMMANDS:
    print(
      f'gossipjax has no command {words[0]!r}{nearest(words[0], COMMANDS)}',
      file=sys.stderr,
    )
    sys.exit(USER_ERROR_EXIT)
  else:
    command = importlib.import_module(f'gossipjax.commands.{words[0]}')
    command.start(words[1:])


if __name__ == '__main__':
  main(sys.argv[1:])
