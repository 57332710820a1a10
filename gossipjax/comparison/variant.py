"""One run of a comparison, resolved and checked before training."""

from typing import Any, NamedTuple

from ml_collections import ConfigDict

from gossipjax.distributed import processes
from gossipjax.errors import UserError
from gossipjax.simulation import simulate
from gossipjax.training import worker_program
from gossipjax.training.run import Run, resolve_run


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
  name: str, config: ConfigDict, tasks: dict[str, Any] | None = None
) -> Variant:
  """Resolves a run and traces its step, before anything is written.

  Args:
    name: of the variant.
    config: of one run, see gossipjax/config/defaults.py.
    tasks: see `training.run.resolve_run`.

  Raises:
    UserError: the run would fail later.
  """
  run = resolve_run(config, tasks)
  if run.cluster is None:
    return Variant(name, config, run, worker_program.rehearse(run))
  if processes.distributed():
    raise UserError('--distributed trains in real time; set config.cluster={}.')
  return Variant(name, config, run, simulate.rehearse(run))
