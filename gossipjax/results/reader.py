"""Reads the runs of workdirs, without JAX; they may still be training.

Variants without a record and incomplete last lines are left out.
results/workdir.py lists the files of a workdir.
"""

import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gossipjax.config.variants import merged_by_name, without_seed
from gossipjax.errors import UserError
from gossipjax.results import record_file, record_order, workdir
from gossipjax.results.workdir import SCHEMA

_NONE = np.array([], np.int64)


class Run(NamedTuple):
  """One variant of a comparison.

  Attributes:
    workdir: of the comparison.
    name: of the variant.
    config: the base config with the variant's changes, without `variants`.
    records: an array [records] per column, see `record_file.columns`.
    summary: of the variant; None while it is training.
    higher: names of scores of which large values are good.
    devices: of the machine that began the comparison.
    processes: number of processes that trained together.
  """

  workdir: pathlib.Path
  name: str
  config: dict[str, Any]
  records: dict[str, np.ndarray]
  summary: dict[str, Any] | None
  higher: tuple[str, ...] = ()
  devices: tuple[str, ...] = ()
  processes: int = 1

  @property
  def variant(self) -> str:
    """The name of the variant, without the seed that `config.seeds` adds."""
    return without_seed(self.name, self.config['seed'])

  def numbers(self, column: str) -> np.ndarray:
    """A column of the records without NaN; empty if there is no such one."""
    return (x := self.records.get(column, _NONE))[~np.isnan(x)]


def read(*workdirs: str | pathlib.Path, lost: bool = False) -> list[Run]:
  """Returns all variants with a record, in the order of arguments and configs.

  Args:
    *workdirs: folders of comparisons.
    lost: whether to return also those that diverged before their first record,
      with a record of step 0 that has no other column.

  Raises:
    UserError: a folder is not a workdir of `run`, is damaged, holds no record,
      is given twice, or has a schema that this gossipjax does not read.
  """
  if not workdirs:
    raise UserError(
      'load() needs the folder of a comparison, such as '
      'runs/quickstart-20250101-120000.'
    )
  folders = [pathlib.Path(folder) for folder in workdirs]
  seen, found = set(), []
  for folder in folders:
    if folder.resolve() in seen:
      raise UserError(f'{folder} is given twice; name each workdir once.')
    seen.add(folder.resolve())
  claims = {folder: _claim(folder) for folder in folders}
  _check_schema({f: c.get('schema', SCHEMA) for f, c in claims.items()})
  for folder, claim in claims.items():
    _finished(folder)  # Refuses a config.json that was changed.
    runs = list(_runs(folder, claim, lost))
    if not any(len(run.records) > 1 for run in runs):
      raise UserError(_without_records(folder, claim))
    found += runs
  return found


def summary(folder: pathlib.Path) -> dict[str, Any]:
  """The summary of a comparison, with the variants finished so far.

  Returns:
    summary.json if there is one; otherwise the same keys: 'config', 'runs'
    (finished variants, in the order of the config) and the
    `workdir.provenance` of the process that began the comparison.

  Raises:
    UserError: the folder is not a workdir of `run`, is damaged, has another
      schema, or no variant is finished.
  """
  claim = _claim(folder)
  _check_schema({folder: claim.get('schema', SCHEMA)})
  if found := _finished(folder):
    return found
  runs = [
    _end(folder / name, run)
    for name, run in merged_by_name(claim['config']).items()
  ]
  if not (finished := [run for run in runs if run]):
    raise UserError(
      f'No run in {folder} is finished; wait, or continue it with --resume.'
    )
  return claim | {'runs': finished}


def _finished(folder: pathlib.Path) -> dict[str, Any] | None:
  """summary.json of a comparison; None if it is not finished.

  Raises:
    UserError: it is damaged, or one of its variants is gone.
  """
  if not (found := workdir.summary(folder)):
    return None
  names = [run['name'] for run in found.get('runs', ())]
  gone = [n for n in names if not (folder / n / workdir.SUMMARY).exists()]
  # If the summary is gone, too, another process is continuing the comparison.
  if gone and workdir.summary(folder):
    raise UserError(
      f'{folder / gone[0]} holds no finished run, though {folder} was '
      'finished with it; the same command with --resume runs it again.'
    )
  return found if not gone else None


def _claim(folder: pathlib.Path) -> dict[str, Any]:
  """config.json of a comparison; folders of other commands are refused."""
  claim = workdir.claimed(folder)
  if (kind := workdir.kind(folder, claim)) == 'tune':
    raise UserError(
      f'{folder} is a folder of `tune`; its results are in '
      f'{folder / "trials.md"}, and `run` compares with its tuned.py.'
    )
  if kind != 'run':
    raise UserError(
      f'{folder} is a folder of `{kind}`, whose command shows its results '
      'again; name the workdir of a comparison.'
    )
  return claim


def _check_schema(versions: dict[pathlib.Path, int]) -> None:
  first = next(iter(versions))
  for folder, version in versions.items():
    if version != versions[first]:
      raise UserError(
        f'{first} has schema version {versions[first]} and {folder} '
        f'{version}; load them one by one, or run one of them again.'
      )
    if version != SCHEMA:
      raise UserError(
        f'{folder} has schema version {version}, this gossipjax reads '
        f'{SCHEMA}; use the one that wrote it.'
      )


def _without_records(folder: pathlib.Path, claim: dict[str, Any]) -> str:
  names = merged_by_name(claim['config'])
  ends = [workdir.summary(folder / name, False) or {} for name in names]
  if all(reasons := [end.get('diverged') for end in ends]):
    return f'{folder} holds no record, since every run diverged: {reasons[0]}'
  return (
    f'{folder} holds no record yet; wait for the first, or '
    'name another workdir.'
  )


def _end(folder: pathlib.Path, config: dict[str, Any]) -> dict[str, Any] | None:
  """The summary of a variant; None if it is not finished, or was resumed for
  more steps than it ended with."""
  found = workdir.summary(folder)
  steps, cluster = config['steps'], config.get('cluster')
  return found if found and workdir.is_over(found, steps, cluster) else None


def _runs(
  folder: pathlib.Path, claim: dict[str, Any], lost: bool
) -> Iterator[Run]:
  config, higher = claim['config'], tuple(claim.get('higher_is_better', ()))
  machine = tuple(claim.get('devices', ())), claim.get('processes', 1)
  for name, run in merged_by_name(config).items():
    path = folder / name / workdir.RECORDS
    end = workdir.summary(folder / name, False)  # First: a run may add records.
    records = record_file.columns(path) if path.exists() else {}
    if records:
      record_order.check(path, records['step'], run)  # Names the line.
    record_order.check_end(path, records.get('step', _NONE), end)
    end = _end(folder / name, run)  # Refuses any other change of the files.
    if lost and not records and end and end.get('diverged'):
      records = {'step': np.zeros(1, int)}
    if records:
      yield Run(folder, name, run, records, end, higher, *machine)
