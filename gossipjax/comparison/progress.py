"""What a terminal shows while a comparison runs, and at its end.

Without a terminal, or without rich, the same is plain text.
"""

import importlib.util
import pathlib
import sys
from typing import Any, TextIO

from gossipjax.commands import streams
from gossipjax.comparison import (
  answer,
  answer_table,
  answer_text,
  scores,
  table,
  units,
)
from gossipjax.results import reader
from gossipjax.training.record import Record, held_out


def _draws(stream: TextIO) -> bool:
  """Whether tables and bars can be drawn on a stream."""
  return stream.isatty() and importlib.util.find_spec('rich') is not None


class Bar:
  """A progress bar per run on a terminal; otherwise a line per evaluation.

  Both show the newest held-out score and the bytes sent so far, of the worker
  that sends most.
  """

  def __init__(self):
    self._progress = _progress() if _draws(sys.stderr) else None
    self._tasks = {}  # Ids of rich's tasks, by run.

  def __enter__(self) -> 'Bar':
    if self._progress:
      self._progress.start()
    return self

  def __exit__(self, *_) -> None:
    if self._progress:
      self._progress.stop()

  def show(self, name: str, config: Any, record: Record) -> None:
    """Shows a record; a `watch` of compare().

    Args:
      name: of the run.
      config: of the run, a ConfigDict.
      record: its newest record.
    """
    loss = units.loss(record.train_loss) or 'unknown'
    if self._progress is None:
      if found := held_out(record):
        first, value = next(iter(found.items()))
        streams.print_line(
          f'{name}: step {record.step}/{config.steps}, loss '
          f'{loss}, held-out {first} '
          f'{scores.as_text(f"test_{first}", value)}, '
          f'{units.size(max(record.bytes_sent))} sent'
        )
      return
    if name not in self._tasks:
      self._tasks[name] = self._progress.add_task(
        name, total=config.steps, loss='', rate=0.0, score='', sent=''
      )
    fields = {}
    if found := held_out(record):
      first, value = next(iter(found.items()))
      fields['score'] = f'{first} {scores.as_text(f"test_{first}", value)}'
    self._progress.update(
      self._tasks[name],
      completed=record.step,
      loss=loss,
      rate=record.examples_per_s or 0.0,
      sent=f'{units.size(max(record.bytes_sent))} sent',
      **fields,
    )


def _progress() -> Any:
  from rich.console import Console
  from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

  return Progress(
    TextColumn('{task.description:>20}'),
    BarColumn(),
    TextColumn('{task.completed}/{task.total}'),
    TextColumn('loss {task.fields[loss]}'),
    TextColumn('{task.fields[score]}'),
    TextColumn('{task.fields[sent]}'),
    TextColumn('{task.fields[rate]:,.0f} examples/s'),
    TimeRemainingColumn(),
    console=Console(stderr=True),
  )


def show(summary: dict[str, Any], folder: pathlib.Path) -> None:
  """Prints the answer and the table of a comparison, and where its files are.

  Args:
    summary: of the comparison, as in summary.json.
    folder: of the comparison.
  """
  found = answer.of(summary, reader.read(folder))
  if not _draws(sys.stdout):
    print(table.markdown(summary, found))
  else:
    if found:
      print('', *answer_text.paragraphs(found), '', sep='\n')
      _print_table(answer_table.rows(found))
    for rows in table.parts(table.rows(summary)):
      _print_table(rows)
  print(f'Table, figures and records are in {folder}.')


def _print_table(rows: list[dict[str, str]]) -> None:
  from rich.console import Console
  from rich.table import Table
  from rich.text import Text  # Brackets in a name are no markup.

  grid = Table(header_style='bold')
  for heading in rows[0]:
    grid.add_column(
      Text(heading), justify='left' if heading == 'run' else 'right'
    )
  for row in rows:
    grid.add_row(*map(Text, row.values()))
  Console().print(grid)
