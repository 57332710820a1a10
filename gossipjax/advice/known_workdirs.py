"""Reads known runs from workdirs of comparisons that have an all-reduce."""

import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from gossipjax.advice import known_file
from gossipjax.advice.known_runs import DENSE, Known, identity
from gossipjax.comparison import answer, target_costs
from gossipjax.comparison.targets import SHARE, asking_for
from gossipjax.config import given_arguments
from gossipjax.config.variants import merged_by_name
from gossipjax.results import reader


def with_kept(folders: Sequence[str], share: float) -> list[Known]:
  """Returns the runs that the package keeps, and those of `of_workdirs`."""
  return [*known_file.kept(share=share), *of_workdirs(folders, share)]


def of_workdirs(
  folders: Sequence[str | pathlib.Path], share: float = SHARE
) -> Iterator[Known]:
  """Yields the runs of each comparison other than its all-reduce.

  Of variants that differ only in the learning rate, the best one counts: a miss
  at one rate is no miss of a strategy that reaches the target at another.

  Args:
    folders: workdirs; a repeated one counts once.
    share: the fraction of all-reduce's best score that is the target, in place
      of the target in the config of a workdir.

  Raises:
    UserError: a folder is not a workdir with a finished run.
  """
  by_place = {pathlib.Path(f).resolve(): pathlib.Path(f) for f in folders}
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
      if _without_rate(config) not in seen and _waits(config):
        yield _of_row(str(folder), row, found, config)
      seen.append(_without_rate(config))


def _without_rate(config: Mapping) -> dict:
  return {**config, 'optimizer': {**config['optimizer'], 'learning_rate': None}}


def _waits(config: Mapping) -> bool:
  """Whether all workers wait for each other, as `advise` assumes: if they do
  not, the steps of a run are mostly gradients of the fast workers."""
  cluster = config.get('cluster') or {}
  ahead = cluster.get('asynchronous', bool(cluster)) or cluster.get('first')
  return not (ahead or config.get('engine'))


def _of_row(
  table: str, row: target_costs.Row, found: answer.Answer, config: Mapping
) -> Known:
  """Returns what a row of an answer tells of its run.

  `missed` and `relative_steps` are NaN if all-reduce misses the target, or if
  runs ended at a target of their own, which does not show who reaches another.
  """
  missed = steps = math.nan
  if found.share and found.reference.arrives:
    missed = [*row.each.values()].count(target_costs.NEVER) / len(row.each)
    if missed in (0, 1):  # If only some seeds miss it, steps are not kept.
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
