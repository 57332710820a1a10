"""Reads known runs from workdirs of comparisons that have an all-reduce."""

import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from gossipjax.advice import known_file
from gossipjax.advice.known_runs import DENSE, Known, identity
from gossipjax.comparison import answer, target_costs
from gossipjax.comparison.targets import SHARE, asking_for
from gossipjax.config import given_arguments, resolve
from gossipjax.config.variants import merged_by_name
from gossipjax.results import reader
from gossipjax.results.more_steps import OWN


def with_kept(folders: Sequence[str], share: float) -> list[Known]:
  """Returns the runs that the package keeps, and those of `of_workdirs`."""
  return [*known_file.kept(share=share), *of_workdirs(folders, share)]


def of_workdirs(
  folders: Sequence[str | pathlib.Path], share: float = SHARE
) -> Iterator[Known]:
  """Yields the runs of each comparison other than its all-reduce.

  Runs that sent nothing, and strategies that were built by hand, are left out.
  Of variants that differ only in the learning rate, the best one counts: a miss
  at one rate is no miss of a strategy that reaches the target at another.

  Args:
    folders: workdirs; a repeated one counts once.
    share: the fraction of all-reduce's best score that is the target, in place
      of the target in the config of a workdir.

  Raises:
    UserError: a folder is not a workdir with a finished run.
  """
  by_place = {p.resolve(): p for p in map(_path, folders)}
  for folder in by_place.values():
    summary, runs = reader.summary(folder), reader.read(folder)
    with_target = {**summary['config'], **asking_for(share)}
    found = answer.of({**summary, 'config': with_target}, runs)
    if found is None or found.reference.score is None:
      continue
    # Includes variants that diverged before their first record.
    configs = merged_by_name({**summary['config'], 'seeds': ()})
    if configs[found.dense]['strategy']['name'] != DENSE:
      continue
    seen = [_without_rate(configs[found.dense])]
    for row in found.rows:  # The best first.
      config = configs[row.name]
      counts = row.period is None and _waits(config) and _is_named(config)
      if _without_rate(config) not in seen and counts:
        yield _of_row(str(folder), row, found, config)
      seen.append(_without_rate(config))


def _path(folder: str | pathlib.Path) -> pathlib.Path:
  return pathlib.Path(folder).expanduser()


def _without_rate(config: Mapping) -> dict:
  return {**config, 'optimizer': {**config['optimizer'], 'learning_rate': None}}


def _waits(config: Mapping) -> bool:
  """Whether all workers wait for each other, as `advise` assumes: if they do
  not, the steps of a run are mostly gradients of the fast workers."""
  cluster = config.get('cluster') or {}
  ahead = cluster.get('asynchronous', bool(cluster)) or cluster.get('first')
  return not (ahead or config.get('engine'))


def _is_named(config: Mapping) -> bool:
  """Whether the config says which strategy ran. Of one that was built by hand,
  for `gossipjax.compare`, it has only the label."""
  strategy = config['strategy']
  if config['optimizer']['name'] != OWN:
    return True
  name = strategy['name']
  known = name in resolve.STRATEGIES and {*resolve.strategy_config(name)}
  return known == {*strategy}


def _of_row(
  table: str, row: target_costs.Row, found: answer.Answer, config: Mapping
) -> Known:
  """Returns what a row of an answer tells of its run.

  `missed` and `relative_steps` are NaN if all-reduce misses the target, or if
  runs ended at a target of their own, which does not show who reaches another;
  `relative_steps` also if the steps of one of the two are an upper bound.
  """
  missed = steps = math.nan
  if found.share and found.reference.arrives:
    missed = [*row.each.values()].count(target_costs.NEVER) / len(row.each)
    bound = row.at_once or found.reference.at_once
    if missed in (0, 1) and not bound:  # Not if only some seeds miss it.
      steps = row.steps / found.reference.steps
  return Known(
    table,
    *identity(config),
    config['strategy']['name'],
    found.metric,
    row.score.mean if row.score else math.nan,
    found.reference.score.mean if found.reference.score else math.nan,
    missed,
    steps,
    len(row.each),
    given_arguments.as_text(config['strategy']),
  )
