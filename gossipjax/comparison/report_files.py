"""Writes what a person reads of a comparison: Markdown, figures, HTML.

All of it is made from what results/reader.py returns, so that it can be written
again at any time, also while the comparison is running.
"""

import pathlib
import shlex
from typing import Any

from gossipjax.commands import console
from gossipjax.comparison import answer, table
from gossipjax.distributed import processes
from gossipjax.errors import missing
from gossipjax.results import reader, timeline_file, workdir


def announce(folder: pathlib.Path) -> None:
  """Says on stderr, before training, if `write` will lack its libraries."""
  if processes.is_first() and (sentence := missing('report')):
    console.say(
      f'{sentence} This run writes no figures and no report.html; afterwards '
      f'python -m gossipjax report {shlex.quote(str(folder))} makes them.'
    )


def write_table(folder: pathlib.Path) -> dict[str, Any]:
  """Writes comparison.md alone; see `write`."""
  summary = reader.summary(folder)
  found = answer.of(summary, reader.read(folder))
  workdir.write(folder / 'comparison.md', table.markdown(summary, found))
  return summary


def write(folder: pathlib.Path) -> dict[str, Any]:
  """Writes comparison.md, the figures and report.html of a workdir.

  Args:
    folder: of a comparison that has a finished run.

  Returns:
    The summary of the comparison, with the runs finished so far.

  Raises:
    UserError: `folder` is no workdir, is damaged, or no run is finished.
  """
  # Imported here, because training does not need their libraries.
  from gossipjax.comparison import figures, report, timelines

  summary, runs = write_table(folder), reader.read(folder)
  figures.draw(folder, summary, runs)
  names = [run['name'] for run in summary['runs'] if 'virtual_s' in run]
  spans = {name: timeline_file.read(folder / name) for name in names}
  timelines.draw(folder, spans)
  report.write(folder, summary, runs)
  return summary
