"""Joins comparisons for one table and one page, perhaps at another target."""

import pathlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gossipjax.comparison import (
  answer,
  next_comparison,
  report,
  scores,
  table,
)
from gossipjax.config import defaults
from gossipjax.config.variants import changes_by_name, merged_by_name
from gossipjax.errors import UserError
from gossipjax.results import reader, total_time, workdir

# Keys in which comparisons that share a target may differ.
FREE = ('seed', 'seeds', 'strategy', 'variants', 'optimizer', 'log', 'data')

NO_GOAL: Mapping[str, float] = {}  # Keeps the configs' targets.

# Every page has one in its head; pages of earlier versions the second.
MARKS = b'<meta name="generator" content="gossipjax">', b"script-src 'sha256-"


def joined(
  folders: Sequence[pathlib.Path], goal: Mapping[str, float] = NO_GOAL
) -> tuple[dict[str, Any], list[reader.Run]]:
  """Joins summaries and runs, named WORKDIR/RUN if there are several folders.

  Args:
    folders: of comparisons; if names are equal, whole paths precede the runs'.
    goal: `target` or `target_share` in place of those of the configs.

  Raises:
    UserError: a folder is not a workdir, or its runs ended at another target;
      or folders differ in keys that are not FREE, so that they have no common
      target, or in the kind of their seconds, or in the machine.
  """
  summaries = [reader.summary(folder) for folder in folders]
  configs = [{**defaults.filled(s['config']), **goal} for s in summaries]
  _check_alike(folders, configs, goal)
  names = _names(folders)
  runs = [
    run._replace(name=names[run.workdir] + run.name)
    for run in reader.read(*folders)
  ]
  _check_seconds(folders, summaries, runs)
  entries = [
    {**entry, 'name': names[folder] + entry['name']}
    for folder, summary in zip(folders, summaries, strict=True)
    for entry in summary['runs']
  ]
  each = {
    names[folder] + name: config
    for folder, shared in zip(folders, configs, strict=True)
    for name, config in _variants({**shared, 'seeds': []})
  }
  merged = {
    'config': {**configs[0], 'seeds': [], 'variants': each},
    'runs': entries,
    'command': _asking(_shared(summaries, 'command', ''), goal),
  }
  return {**summaries[0], **_provenance(summaries), **merged}, runs


def _provenance(summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
  """What ran where; 'several' where comparisons differ."""
  known = [summary['versions'] for summary in summaries]
  keys = ('commit', 'python', 'cores', 'processor')
  devices = dict.fromkeys(d for s in summaries for d in s['devices'])
  return {
    **{key: _shared(summaries, key, 'several') for key in keys},
    'versions': {key: _shared(known, key, 'several') for key in known[0]},
    'devices': [*devices],
  }


def _check_alike(
  folders: Sequence[pathlib.Path],
  configs: Sequence[dict[str, Any]],
  goal: Mapping[str, float],
) -> None:
  """Raises a UserError if comparisons have no common target."""
  first, ends = configs[0], {}
  for folder, config in zip(folders, configs, strict=True):
    for run in merged_by_name(config).values():
      ends[scores.goal({'cluster': run.get('cluster')})] = folder
    if goal and any(map(any, ends)):
      raise UserError(
        f'The runs in {folder} ended at the target of config.cluster; they do '
        'not show which ones would reach another target.'
      )
    if len(ends) > 1:
      raise UserError(
        f'The runs in {folder} and in {folders[0]} ended at different targets '
        'of config.cluster; report them one by one.'
      )
    for key in {**first, **config}:
      if key not in FREE and config.get(key) != first.get(key):
        raise UserError(
          f'{folder} has another config.{key} than {folders[0]}; report them '
          'one by one.'
        )


def _variants(
  config: Mapping[str, Any],
) -> Iterator[tuple[str, dict[str, Any]]]:
  """Yields the name and the whole config of each variant; a seed only if the
  variant sets it."""
  changes = changes_by_name(config)
  for name, found in merged_by_name(config).items():
    own = 'seed' in changes[name]
    yield name, {k: v for k, v in found.items() if k != 'seed' or own}


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
      text = ', '.join(f'those of {at} are {how}' for how, at in known.items())
      raise UserError(
        f'Seconds of these workdirs are not comparable: {text}; report them '
        'one by one.'
      )


def _machine(summary: dict[str, Any]) -> str:
  return f'of {summary.get("device_kind")} and {summary.get("cores")} cores'


def _shared(summaries: Sequence[dict[str, Any]], key: str, differs: str) -> Any:
  """The value in all summaries; `differs` if they do not agree."""
  values = {summary.get(key, '') for summary in summaries}
  return values.pop() if len(values) == 1 else differs


def _asking(command: str, goal: Mapping[str, float]) -> str:
  """Adds a target to a command; of two flags of one key, the last counts."""
  if command in ('', next_comparison.IN_PYTHON):
    return command
  return shlex.join(
    [*shlex.split(command), *(f'--config.{k}={v}' for k, v in goal.items())]
  )


def _names(folders: Sequence[pathlib.Path]) -> dict[pathlib.Path, str]:
  """Returns what to put before the names of each folder's runs."""
  if len(folders) == 1:
    return {folders[0]: ''}
  last = [folder.resolve().name for folder in folders]
  return {
    folder: f'{name if last.count(name) == 1 else folder}/'
    for folder, name in zip(folders, last, strict=True)
  }


def write(
  folders: Sequence[pathlib.Path],
  path: pathlib.Path,
  goal: Mapping[str, float] = NO_GOAL,
) -> str:
  """Writes the page of comparisons; returns its tables as text.

  Args:
    folders, goal: see `joined`.
    path: of the page.

  Raises:
    UserError: as for `joined`, or the file at `path` is no such page, or the
      target is an accuracy above 1.
  """
  head = path.read_bytes()[:1000] if path.is_file() else MARKS[0]
  if not any(mark in head for mark in MARKS):
    raise UserError(
      f'{path} was not written by `report`; give --out another name, or move '
      'the file away.'
    )
  summary, runs = joined(folders, goal)
  found = answer.of(summary, runs)
  if found and goal:
    scores.check_share(found.metric, found.target)
  workdir.write(path, report.page(summary, runs))
  return table.markdown(summary, found)
