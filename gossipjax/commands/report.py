"""Writes the table, figures and report.html of a workdir again.

    python -m gossipjax report runs/mine
    python -m gossipjax report runs/a runs/b --out=both.html
    python -m gossipjax report runs/mine --target_share=0.95 --out=easier.html

Reads what a run has left in its workdir, also while it is running: then the
table has the variants that are finished. Prints the answer and the table. Of
several workdirs that train the same thing it makes one page, --out, and writes
nothing else; likewise for another target than that of the config: a score,
--target, or a share of the best score of all-reduce, --target_share.
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

MOST = 1000  # Workdirs.


def start(words: Sequence[str]) -> None:
  """Reports as the words after `report` say."""
  command_line.start(__doc__, define_flags, main, words, positional=MOST)


def define_flags() -> None:
  """Defines the flags, which must not meet those of another command."""
  flags.DEFINE_string(
    'out', 'report.html', 'The page of several workdirs, or of another target.'
  )
  flags.DEFINE_float('target', None, 'Score to be reached.')
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
  many = f'{len(folders)} workdirs' if len(folders) > 1 else folders[0]
  print(f'One page of {many}: {out}')


def _goal() -> dict[str, float]:
  """The target that is asked for, as keys of a config; {} if none is."""
  target, share = flags.FLAGS.target, flags.FLAGS.target_share
  if target is not None and share is not None:
    raise UserError('Give --target or --target_share, not both.')
  goal = {} if target is None else {'target': target}
  if share is not None:
    goal = asking_for(share)
  ranges.check(goal)
  return goal
