"""One run of a comparison, resolved and checked before training."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
from ml_collections import ConfigDict

from gossipjax.comparison import scores
from gossipjax.compressors import sparse
from gossipjax.config import defaults
from gossipjax.distributed import processes, stopping
from gossipjax.errors import UserError, nearest
from gossipjax.simulation import dry_run
from gossipjax.tasks import checks, data_checks
from gossipjax.training import (
  gradient_stages,
  memory,
  score_checks,
  worker_program,
)
from gossipjax.training.part_checks import Names
from gossipjax.training.run import Overrides, Run, resolve_run


class Variant(NamedTuple):
  """One run of a comparison, checked.

  Attributes:
    name: also the name of its folder.
    config: of this run, as it is written into its files.
    run: the config, resolved.
    shapes: of the parameters and of the state, with dtypes.
  """

  name: str
  config: ConfigDict
  run: Run
  shapes: tuple[Any, Any]


def check(
  name: str,
  config: ConfigDict,
  tasks: dict[str, Any] | None = None,
  given: Overrides = Overrides(),
) -> Variant:
  """Resolves a run and traces its step, before anything is written.

  Args:
    name: of the variant.
    config: of one run, see gossipjax/config/defaults.py.
    tasks, given: see `training.run.resolve_run`.

  Raises:
    UserError: the run would fail later.
  """
  keys = defaults.get_config().keys()
  for key in (key for key in config if key not in keys):
    raise UserError(f'config.{key} is unknown{nearest(key, keys)}')
  if config.get('cluster') and processes.distributed():
    raise UserError(
      'config.cluster is computed by one process: use `run` in place of '
      '`launch` (or of --distributed), or set config.cluster={}.'
    )
  loaded = {} if tasks is None else tasks
  before = len(loaded)
  run = resolve_run(config, loaded, given)
  if run.engine and processes.distributed():
    raise UserError(
      f'config.engine={run.engine} starts its own processes: use `run` in '
      'place of `launch` (or of --distributed).'
    )
  _check_target(config, run)
  trace_step = dry_run.trace_step if run.cluster else worker_program.trace_step
  names = _names(name, config, given)
  found = Variant(name, config, run, trace_step(run, names))
  gradient_stages.check(run, found.shapes)
  if not run.cluster:
    memory.check_start(run, found.shapes)
  params, _ = found.shapes
  entries = sum(leaf.size for leaf in jax.tree.leaves(params))
  _check_density(config.strategy, entries, f'{name}: config.strategy')
  custom = given.task is not None or ':' in config.task.name
  if custom and len(loaded) > before:
    # The data and scores of built-in tasks need no check.
    data_checks.check(run.task, run.batch_size, run.seed)
    score_checks.check(run)
  stopping.finished()
  return found


def _check_target(config: ConfigDict, run: Run) -> None:
  """Rejects a score that the task does not have, an accuracy above 1, and a
  target other than the one at which runs in virtual time end."""
  if contradiction := scores.contradiction(config):
    raise UserError(
      'Runs end at the target of config.cluster and are judged by that of '
      f'config.target_score and config.target: {contradiction}; leave one out.'
    )
  if chosen := config.get('target_score'):
    known = checks.scores_of(run.task)
    if chosen not in known:
      raise UserError(
        f'config.target_score={chosen} is not a score of the task'
        f'{nearest(chosen, known)}'
      )
  if (target := scores.goal(config)[1]) > 1:
    scores.check_share(scores.of_task(config, run.task)[0], target)


def _names(name: str, config: ConfigDict, given: Overrides) -> Names:
  """Returns the names of the parts of a run, as the user wrote them."""
  strategy, optimizer = config.strategy.name, config.optimizer.name
  return Names(
    f'strategy {name!r}' if given.strategy else f'strategy.name={strategy}',
    'the optimizer' if given.optimizer else f'optimizer.name={optimizer}',
  )


def _check_density(strategy: Mapping[str, Any], size: int, path: str) -> None:
  """Rejects a density that keeps no entry of the whole model.

  Args:
    strategy: `config.strategy`, or a part of it.
    size: entries of the model.
    path: of `strategy` in the config, for the error message.
  """
  for key, value in strategy.items():
    if isinstance(value, Mapping | ConfigDict):
      _check_density(value, size, f'{path}.{key}')
    elif key == 'density' and value is not None:
      sparse.check_keeps(value, size, f'{path}.{key}')


# Variants share these, as they decide what is scored and when a run ends.
SHARED: Mapping[str, Mapping[str, Any]] = {
  'split': {'holdout': 'test', 'validation': 0.1},
  'cluster': {'target_score': '', 'target': 0.0, 'target_accuracy': 0.0},
}


def _check_alike(first: ConfigDict, name: str, config: ConfigDict) -> None:
  """Rejects a variant that is scored, or ends, otherwise than the first one."""
  for part, keys in SHARED.items():
    for key, usual in keys.items():
      ours, theirs = (
        (c.get(part) or {}).get(key, usual) for c in (config, first)
      )
      if ours != theirs:
        raise UserError(
          f'config.variants.{name}.{part}.{key}={ours} and not {theirs}: a '
          f'comparison has one config.{part}.{key}; compare them in two '
          'workdirs.'
        )


def check_shared(config: ConfigDict, runs: Sequence[Variant]) -> None:
  """Raises a UserError for a key of the config that no variant uses, or in
  which variants differ although they have to share it."""
  for one in runs:
    _check_alike(runs[0].config, one.name, one.config)
  period = config.get('state_period')
  if period and not any(jax.tree.leaves(one.shapes[1]) for one in runs):
    raise UserError(
      f'config.state_period={period} has no effect, since the model has no '
      'state, such as the statistics of batch norm; leave it out.'
    )
  splits = [one.config.split.name for one in runs]
  for key, split in (('alpha', 'dirichlet'), ('shards', 'label')):
    value, usual = config.split.get(key), defaults.split().get(key)
    if value not in (None, usual) and split not in splits:
      raise UserError(
        f'config.split.{key}={value} is used by no variant; leave it out, or '
        f'set config.split.name={split}.'
      )
  names = [one.config.strategy.name for one in runs]
  may_have = any(name == 'hierarchical' or ':' in name for name in names)
  if config.get('group_link') and not may_have:
    raise UserError(
      f'config.group_link={config.group_link} is used by no variant, since '
      'none has groups of workers; leave it out, or compare '
      'strategy.name=hierarchical too.'
    )
