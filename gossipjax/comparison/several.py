"""Several comparisons as one, for one table and one page."""

import pathlib
from collections.abc import Sequence
from typing import Any

from gossipjax.comparison import answer, report, table
from gossipjax.config import defaults
from gossipjax.errors import UserError
from gossipjax.results import reader, total_time, workdir

# Keys in which comparisons that share a target may differ.
FREE = ('seed', 'seeds', 'strategy', 'variants', 'optimizer', 'log', 'data')

# Of each page; the second, of earlier versions.
MARKS = b'<meta name="generator" content="gossipjax">', b"script-src 'sha256-"


def joined(
  folders: Sequence[pathlib.Path],
) -> tuple[dict[str, Any], list[reader.Run]]:
  """The summary and the runs of all, named WORKDIR/RUN.

  Args:
    folders: of comparisons; those of one name are told apart by their parents.

  Raises:
    UserError: a folder is no workdir, or they train different things, which no
      target compares, or know their seconds in different ways or of different
      machines.
  """
  summaries = [reader.summary(folder) for folder in folders]
  configs = [defaults.filled(summary['config']) for summary in summaries]
  first = configs[0]
  for folder, config in zip(folders, configs, strict=True):
    for key in {**first, **config}:
      if key not in FREE and config.get(key) != first.get(key):
        raise UserError(
          f'{folder} has another config.{key} than {folders[0]}; report them '
          'one by one.'
        )
  names = _names(folders)
  runs = [
    run._replace(name=f'{names[run.workdir]}/{run.name}')
    for run in reader.read(*folders)
  ]
  _check_seconds(folders, summaries, runs)
  entries = [
    {**entry, 'name': f'{names[folder]}/{entry["name"]}'}
    for folder, summary in zip(folders, summaries, strict=True)
    for entry in summary['runs']
  ]
  own = {
    'config': {**first, 'seeds': [], 'variants': {}},
    'runs': entries,
    'command': _shared(summaries, 'command', ''),
    'commit': _shared(summaries, 'commit', 'several'),
  }
  return {**summaries[0], **own}, runs


def _check_seconds(
  folders: Sequence[pathlib.Path],
  summaries: Sequence[dict[str, Any]],
  runs: Sequence[reader.Run],
) -> None:
  """Raises a UserError if seconds are not of one kind and one machine."""
  kinds = {total_time.kind(run): run.workdir for run in reversed(runs)}
  pairs = reversed([*zip(folders, summaries, strict=True)])
  machines = {_machine(summary): folder for folder, summary in pairs}
  # Virtual seconds are the same on every machine.
  clocked = {*kinds} - {total_time.VIRTUAL}
  for known in (kinds, machines if clocked else {}):
    if len(known) > 1:
      told = ', '.join(f'those of {at} are {how}' for how, at in known.items())
      raise UserError(
        f'Seconds of these workdirs are not comparable: {told}; report them '
        'one by one.'
      )


def _machine(summary: dict[str, Any]) -> str:
  return f'of {summary.get("device_kind")} and {summary.get("cores")} cores'


def _shared(summaries: Sequence[dict[str, Any]], key: str, differs: str) -> str:
  """What all say; `differs` if they do not."""
  told = {summary.get(key, '') for summary in summaries}
  return told.pop() if len(told) == 1 else differs


def _names(folders: Sequence[pathlib.Path]) -> dict[pathlib.Path, str]:
  last = [folder.resolve().name for folder in folders]
  return {
    folder: name if last.count(name) == 1 else str(folder)
    for folder, name in zip(folders, last, strict=True)
  }


def write(folders: Sequence[pathlib.Path], path: pathlib.Path) -> str:
  """Writes the page of several comparisons; returns its tables as text.

  Raises:
    UserError: as for `joined`, or at `path` is a file that is no such page.
  """
  head = path.read_bytes()[:1000] if path.is_file() else MARKS[0]
  if not any(mark in head for mark in MARKS):
    raise UserError(
      f'{path} is no page that `report` wrote; give --out another name, or '
      'move the file away.'
    )
  summary, runs = joined(folders)
  workdir.write(path, report.page(summary, runs))
  return table.markdown(summary, answer.of(summary, runs))
