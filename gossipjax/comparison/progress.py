"""What a person sees while a comparison runs, and at its end."""

import pathlib
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gossipjax.comparison import table
from gossipjax.training.record import Record


class Bar:
  """A progress bar on a terminal; elsewhere a plain line per evaluation."""

  def __init__(self):
    self._console = Console(stderr=True)
    self._progress = Progress(
      TextColumn('{task.description:>20}'),
      BarColumn(),
      TextColumn('{task.completed}/{task.total}'),
      TextColumn('loss {task.fields[loss]:.4f}'),
      TextColumn('{task.fields[rate]:,.0f} examples/s'),
      TimeRemainingColumn(),
      console=self._console,
    )
    self._tasks = {}

  def __enter__(self) -> 'Bar':
    if self._console.is_terminal:
      self._progress.start()
    return self

  def __exit__(self, *_) -> None:
    if self._console.is_terminal:
      self._progress.stop()

  def show(self, name: str, config: Any, record: Record) -> None:
    """Takes up a record."""
    if not self._console.is_terminal:
      if record.test_accuracy is not None:
        print(
          f'{name}: step {record.step}/{config.steps}, loss '
          f'{record.train_loss:.4f}, held-out accuracy '
          f'{record.test_accuracy:.4f}',
          file=sys.stderr,
          flush=True,
        )
      return
    if name not in self._tasks:
      self._tasks[name] = self._progress.add_task(
        name, total=config.steps, loss=0.0, rate=0.0
      )
    self._progress.update(
      self._tasks[name],
      completed=record.step,
      loss=record.train_loss,
      rate=record.examples_per_s or 0.0,
    )


def show(summary: dict[str, Any], folder: pathlib.Path) -> None:
  """The table, and where the files are."""
  out = Console()
  if out.is_terminal:
    out.print(table.on_terminal(summary))
  else:
    print(table.markdown(summary))
  print(f'Table, figures and records are in {folder}.')
