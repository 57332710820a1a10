"""log.txt of a comparison: what happened to its runs, in plain words.

Every line is a time and a sentence. Nothing reads it back.
"""

import contextlib
import pathlib
import time
from collections.abc import Mapping
from typing import Any

from gossipjax.comparison import scores, units
from gossipjax.distributed import processes
from gossipjax.training.durable_files import named
from gossipjax.training.loop import Interrupted

NAME = 'log.txt'


class EventLog:
  """Appends sentences, and the reason if the comparison ends early.

  Args:
    folder: of the comparison; has to exist when the log is entered.
  """

  def __init__(self, folder: pathlib.Path):
    self._path = folder / NAME

  def __enter__(self) -> 'EventLog':
    return self

  def __exit__(self, kind, error, trace) -> None:
    if isinstance(error, Interrupted):
      self(f'Stopped after step {error.step}; --resume continues.')
    elif error is not None:
      with contextlib.suppress(OSError):  # A full disk must not hide the error.
        self(f'Ended by {type(error).__name__}: {error}')

  def __call__(self, sentence: str) -> None:
    """Appends a sentence, on one line, with the time."""
    if sentence and processes.is_first():
      line = ' '.join([time.strftime('%Y-%m-%d %H:%M:%S '), *sentence.split()])
      with named(self._path), self._path.open('a', encoding='utf-8') as file:
        file.write(f'{line}\n')


def ended(run: Mapping[str, Any]) -> str:
  """How a run ended: its steps, scores and bytes, or why it diverged.

  Args:
    run: its entry in summary.json; {} in a process that does not write it.
  """
  if not run:
    return ''
  if run.get('diverged'):
    return f'{run["name"]}: {run["diverged"]}'
  results = [
    f'{scores.label(name)} {scores.as_text(name, value)}'
    for name, value in run.items()
    if name.startswith('test_') and value is not None
  ]
  return (
    f'{run["name"]} is finished after {run["steps"]} steps: '
    f'{", ".join([*results, units.size(run["bytes_sent"])])} sent per worker.'
  )
