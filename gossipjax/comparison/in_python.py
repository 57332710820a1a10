"""Compares strategies on a task, from Python: `gossipjax.compare`."""

import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

import optax
from ml_collections import ConfigDict

from gossipjax.aggregator import Strategy
from gossipjax.comparison import compare as comparison
from gossipjax.comparison import next_comparison
from gossipjax.comparison.result import Result
from gossipjax.comparison.variant import Variant, check, check_shared
from gossipjax.config import defaults, in_python_arguments
from gossipjax.config.variant_checks import check_name
from gossipjax.config.variants import variants, without_seed
from gossipjax.errors import UserError, check_kind, nearest
from gossipjax.results.more_steps import OWN
from gossipjax.tasks.task import Task
from gossipjax.training.run import Overrides


def compare(
  task: Task,
  strategies: Mapping[str, Strategy],
  *,
  optimizer: optax.GradientTransformation,
  workers: int = 8,
  steps: int = 300,
  batch_size: int = 16,
  folder: str | pathlib.Path | None = None,
  resume: bool = False,
  audited: bool = False,
  **settings: Any,
) -> Result:
  """Trains a model under several strategies and compares them.

  Args:
    task: model, loss and examples.
    strategies: by name; 'all_reduce', or else the first, sets the target. The
      seed of a run is added to that of gj.NAME(...), not to one built by hand.
    optimizer: of each worker; it does not see the other workers.
    workers: P, 1 to 4,095; each has a device, or all share one.
    steps: local steps of each worker, at least 1.
    batch_size: examples per worker and step, at least 1.
    folder: for all files; must not exist yet. None is a temporary folder, see
      `Result.save`.
    resume: whether to continue the comparison that the folder may hold already.
      Functions are not compared with the earlier ones: pass the same.
    audited: whether to compare all bytes with the compiled programs.
    **settings: further keys of a config, such as seed=1, eval_every=50,
      link='10gbe', split={'name': 'label'}, cluster={}; config/defaults.py
      lists them.

  Returns:
    The answer, a table, all records and the files.

  Raises:
    UserError: a setting is unknown or cannot be met; nothing is written.
    Diverged: the loss of every strategy became NaN or Inf.
  """
  _check(task, strategies, optimizer, folder)
  folder = pathlib.Path(folder).expanduser() if folder else None
  if resume and not (folder and folder.is_dir()):
    raise UserError('compare: resume=True needs the folder of a comparison.')
  numbers = {'workers': workers, 'steps': steps, 'batch_size': batch_size}
  config = _config(strategies, numbers | settings)
  given = {k: Overrides(task, s, optimizer) for k, s in strategies.items()}
  runs = _checked(config, given)
  temporary = None if folder else tempfile.TemporaryDirectory()
  where = folder or pathlib.Path(temporary.name) / 'run'
  summary = comparison.of_variants(
    config, runs, where, resume, audited, command=next_comparison.IN_PYTHON
  )
  return Result(summary, where, task, temporary)


def _checked(
  config: ConfigDict, given: Mapping[str, Overrides]
) -> list[Variant]:
  """The runs of a config, with what is given for each strategy by its label."""
  tasks: dict[str, Task] = {}
  runs = [
    check(name, run, tasks, given[without_seed(name, run.seed)])
    for name, run in variants(config)
  ]
  check_shared(config, runs)
  return runs


def _check(task: Any, strategies: Any, optimizer: Any, folder: Any) -> None:
  """Raises a UserError if an argument has the wrong type."""
  if not isinstance(strategies, Mapping) or not strategies:
    raise UserError(
      'compare needs a strategy by its name, such as {"topk": gj.topk()}.'
    )
  each = {f'strategy {k!r}': (s, Strategy) for k, s in strategies.items()}
  for what, (value, kind) in {
    'task': (task, Task),
    'optimizer': (optimizer, optax.GradientTransformation),
    **each,
  }.items():
    check_kind(f'compare: the {what}', value, kind)
  if not isinstance(folder, str | os.PathLike | None):
    raise UserError(
      f'compare: the folder is {folder!r}; it has to be a path, such as '
      "'runs/mine', or None."
    )


def _config(
  strategies: Mapping[str, Strategy], settings: Mapping[str, Any]
) -> ConfigDict:
  """Returns a config in which names stand for the given functions."""
  seeds = settings.get('seeds')
  if isinstance(seeds, tuple | list) and seeds and 'seed' in settings:
    raise UserError(
      f'compare: seed={settings["seed"]} has no effect beside '
      f'seeds={settings["seeds"]}; leave one of them out.'
    )
  config = defaults.get_config()
  with config.ignore_type(), config.unlocked():
    config.task = ConfigDict({'name': 'own'})
    config.optimizer = ConfigDict({'name': OWN})
    for key, value in settings.items():
      if key not in config or key in ('task', 'strategy', 'variants'):
        raise UserError(_unknown(key, config))
      value = in_python_arguments.setting(key, value, config[key])
      build = {'split': defaults.split, 'cluster': defaults.cluster}.get(key)
      config[key] = build(**value) if build and value else value
    for name in strategies:
      check_name(name)
    config.variants = ConfigDict(
      {
        name: {'strategy': getattr(made, 'config', None) or {'name': name}}
        for name, made in strategies.items()
      },
      sort_keys=False,
    )
  return config


def _unknown(key: str, config: ConfigDict) -> str:
  """A sentence about a setting that `compare` does not have."""
  if key in defaults.get_config().optimizer:
    return f'compare: {key} belongs to the optimizer; give it to optax there.'
  if key == 'workdir':
    return 'compare: the workdir is called folder=.'
  known = {'workers', 'steps', 'batch_size', 'folder', 'resume', 'audited'}
  known |= {*config} - {'task', 'strategy', 'variants'}
  return f'compare has no setting {key!r}{nearest(key, known)}'
