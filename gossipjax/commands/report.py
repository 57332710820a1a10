"""Writes the table, figures and report.html of a workdir again.

    python -m gossipjax report runs/mine
    python -m gossipjax report runs/a runs/b --out=both.html
    python -m gossipjax report runs/mine --target_share=0.95 --out=easier.html

Reads the workdir of a run, also while it is running: the table then has the
variants that are finished. Prints the answer and the table. From several
workdirs of the same task and settings it makes one page, --out, and writes
nothing else. It does the same for a target that differs from the config's: a
score (--target), or a share of all-reduce's best score (--target_share).
"""

import pathlib
from collections.abc import Sequence
from typing import Any

from absl import flags

from gossipjax.commands import command_line
from gossipjax.comparison import progress, report_files
from gossipjax.comparison.targets import asking_for
from gossipjax.config import ranges
from gossipjax.errors import UserError, require

MAX_WORKDIRS = 1000  # Workdirs in one command.


def start(words: Sequence[str]) -> None:
  """Runs `report` with the words that follow it on the command line."""
  command_line.start(
    __doc__, define_flags, main, words, positional=MAX_WORKDIRS
  )


def define_flags() -> None:
  """Defines the flags; a function, since commands share some flag names."""
  flags.DEFINE_string(
    'out', 'report.html', 'The page of several workdirs, or of another target.'
  )
  flags.DEFINE_float(
    'target', None, "The target score, in place of the config's."
  )
  flags.DEFINE_float(
    'target_share', None, 'The target as a share of the best of all-reduce.'
  )


def main(argv: Sequence[str], interrupted: Any) -> None:
  """Writes the files and prints the table.

  Args:
    argv: the program's name and workdirs.
    interrupted: not used; a signal ends the process at once.

  Raises:
    UserError: the workdir is missing or holds no finished run, or the extra
      `report` is not installed.
  """
  del interrupted
  if len(argv) < 2:
    raise UserError(
      'report needs the workdir of a run, such as '
      'python -m gossipjax report runs/mine.'
    )
  require('report')
  folders = [pathlib.Path(word).expanduser() for word in argv[1:]]
  goal = _goal()
  if len(folders) == 1 and not goal:
    if flags.FLAGS['out'].present:
      raise UserError(
        '--out is for several workdirs or another target; the page of one '
        'workdir is report.html inside it, so omit --out.'
      )
    progress.show(report_files.write(folders[0]), folders[0])
    return
  from gossipjax.comparison import several  # Needs the extra.

  out = pathlib.Path(flags.FLAGS.out).expanduser()
  print(several.write(folders, out, goal))
  source = f'{len(folders)} workdirs' if len(folders) > 1 else folders[0]
  print(f'One page of {source}: {out}')


def _goal() -> dict[str, float]:
  """The target that the flags ask for, as config keys; {} if they do not."""
  target, share = flags.FLAGS.target, flags.FLAGS.target_share
  if target is not None and share is not None:
    raise UserError('Give --target or --target_share, not both.')
  if target == 0:
    raise UserError(
      '--target=0 is no target, since 0 stands for none; give a score near it.'
    )
  goal = {} if target is None else {'target': target}
  if share is not None:
    goal = asking_for(share)
  ranges.check(goal)
  return goal
