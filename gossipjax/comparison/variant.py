"""One run of a comparison, resolved and checked before training."""

from typing import Any, NamedTuple

from ml_collections import ConfigDict

from gossipjax.distributed import processes
from gossipjax.errors import UserError, nearest
from gossipjax.simulation import simulate
from gossipjax.tasks import checks
from gossipjax.training import evaluate, worker_program
from gossipjax.training.run import Given, Run, resolve_run


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
    known = checks.scores_of(run.task)
    if chosen not in known:
      raise UserError(
        f'config.target_score={chosen} is no score of the task'
        f'{nearest(chosen, known)}'
      )
  rehearse = simulate.rehearse if run.cluster else worker_program.rehearse
  found = Variant(name, config, run, rehearse(run))
  own = given.task is not None or ':' in config.task.name
  if own and len(loaded) > before:
    evaluate.check_scores(run)  # Those of built-in tasks are known.
  return found
