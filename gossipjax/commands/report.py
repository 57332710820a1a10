"""Writes the table, figures and report.html of a workdir again.

    python -m gossipjax report runs/mine

Reads what a run has left in its workdir, also while it is running: then the
table has the variants that are finished. Prints the table.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

from gossipjax.commands import command_line
from gossipjax.comparison import progress, report_files
from gossipjax.errors import UserError, require


def start(words: Sequence[str]) -> None:
  """Reports as the words after `report` say."""
  command_line.start(__doc__, lambda: None, main, words, positional=1)


def main(argv: Sequence[str], interrupted: Any) -> None:
  """Writes the files and prints the table.

  Args:
    argv: the program's name and a workdir.
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
  folder = pathlib.Path(argv[1])
  progress.show(report_files.write(folder), folder)
