"""One run of a comparison, resolved and checked before training."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
from ml_collections import ConfigDict

from gossipjax.config import defaults
from gossipjax.distributed import processes
from gossipjax.errors import UserError, nearest
from gossipjax.simulation import simulate
from gossipjax.tasks import checks
from gossipjax.training import evaluate, worker_program
from gossipjax.training.run import Given, Run, resolve_run


def _check_density(strategy: Mapping[str, Any], params: Any) -> None:
  """Refuses a density that keeps no entry of the whole model.

  Args:
    strategy: `config.strategy`, or a part of it.
    params: shapes of the parameters.
  """
  size = sum(leaf.size for leaf in jax.tree.leaves(params))
  for key, value in strategy.items():
    if isinstance(value, Mapping | ConfigDict):
      _check_density(value, params)
    elif key == 'density' and value is not None and round(value * size) < 1:
      raise UserError(
        f'density={value} keeps none of {size} entries; it has to be at least '
        f'{1 / size:.2g}.'
      )


class Variant(NamedTuple):
  """One run of a comparison, checked.

  Attributes:
    name: also that of its folder.
    config: of this run, as its files tell it.
    run: the same, resolved.
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
  given: Given = Given(),
) -> Variant:
  """Resolves a run and traces its step, before anything is written.

  Args:
    name: of the variant.
    config: of one run, see gossipjax/config/defaults.py.
    tasks, given: see `training.run.resolve_run`.

  Raises:
    UserError: the run would fail later.
  """
  known_keys = defaults.get_config().keys()
  if unknown := next((key for key in config if key not in known_keys), ''):
    raise UserError(
      f'config.{unknown} is unknown{nearest(unknown, known_keys)}'
    )
  loaded = {} if tasks is None else tasks
  before = len(loaded)
  run = resolve_run(config, loaded, given)
  if run.engine and processes.distributed():
    raise UserError(
      f'engine={run.engine} starts its own processes; leave --distributed out.'
    )
  if run.cluster is not None and processes.distributed():
    raise UserError('--distributed trains in real time; set config.cluster={}.')
  if chosen := config.get('target_score'):
    there = checks.scores_of(run.task)
    if chosen not in there:
      raise UserError(
        f'config.target_score={chosen} is no score of the task'
        f'{nearest(chosen, there)}'
      )
  rehearse = simulate.rehearse if run.cluster else worker_program.rehearse
  found = Variant(name, config, run, rehearse(run))
  _check_density(config.strategy, found.shapes[0])
  own = given.task is not None or ':' in config.task.name
  if own and len(loaded) > before:
    evaluate.check_scores(run)  # Those of built-in tasks are known.
  return found
