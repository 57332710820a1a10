"""Runs that are known from workdirs: of comparisons with an all-reduce."""

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
  """The runs that the package knows, and `of_workdirs`."""
  return [*known_file.kept(share=share), *of_workdirs(folders, share)]


def of_workdirs(
  folders: Sequence[str | pathlib.Path], share: float = SHARE
) -> Iterator[Known]:
  """Of each comparison, its runs beside its all-reduce.

  Of variants that differ in the learning rate alone, the best is known: a
  strategy that reached the target at one rate does not miss it by another.

  Args:
    folders: workdirs; each counts once.
    share: of all-reduce's best score that is the target, whichever theirs was.

  Raises:
    UserError: a folder is no workdir with a finished run.
  """
  by_place = {pathlib.Path(f).resolve(): pathlib.Path(f) for f in folders}
  for folder in by_place.values():
    summary, runs = reader.summary(folder), reader.read(folder)
    asked = {**summary['config'], **asking_for(share)}
    found = answer.of({**summary, 'config': asked}, runs)
    if found is None or found.reference.score is None:
      continue
    # Also of variants that diverged before their first record.
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
  """Whether all workers wait for each other, as `advise` takes it: the steps of
  who does not are gradients of the fast ones."""
  cluster = config.get('cluster') or {}
  alone = cluster.get('asynchronous', bool(cluster)) or cluster.get('first')
  return not (alone or config.get('engine'))


def _of_row(
  table: str, row: target_costs.Row, found: answer.Answer, config: Mapping
) -> Known:
  """A row of an answer.

  Where runs ended at a target, `missed` and `steps` are NaN: those that did not
  get there might have reached another.
  """
  missed = steps = math.nan
  if found.share and found.reference.arrives:
    missed = [*row.each.values()].count(target_costs.NEVER) / len(row.each)
    if missed in (0, 1):  # Of some seeds alone the steps are not kept.
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
    given_arguments.told(config['strategy']),
  )
