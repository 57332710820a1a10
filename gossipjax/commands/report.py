"""Writes the table, figures and report.html of a workdir again.

    python -m gossipjax report runs/mine
    python -m gossipjax report runs/a runs/b --out=both.html

Reads what a run has left in its workdir, also while it is running: then the
table has the variants that are finished. Prints the answer and the table. Of
several workdirs that train the same thing it makes one page, --out, and writes
nothing else.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

from absl import flags

from gossipjax.commands import command_line
from gossipjax.comparison import progress, report_files
from gossipjax.errors import UserError, require

MOST = 1000  # Workdirs.


def start(words: Sequence[str]) -> None:
  """Reports as the words after `report` say."""
  command_line.start(__doc__, define_flags, main, words, positional=MOST)


def define_flags() -> None:
  """Defines the flags, which must not meet those of another command."""
  flags.DEFINE_string('out', 'report.html', 'The page of several workdirs.')


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
  if len(folders) == 1:
    if flags.FLAGS['out'].present:
      raise UserError(
        '--out is for several workdirs; the page of one workdir is report.html '
        'inside it, so omit --out.'
      )
    progress.show(report_files.write(folders[0]), folders[0])
    return
  from gossipjax.comparison import several  # Needs the extra.

  out = pathlib.Path(flags.FLAGS.out).expanduser()
  print(several.write(folders, out))
  print(f'One page of {len(folders)} workdirs: {out}')
