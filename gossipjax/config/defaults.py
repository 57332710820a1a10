"""Every config key with its unit and default; functions that build configs.

`config.variants` makes a comparison: for each variant, its name and changes.
"""

import json
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from gossipjax.config import arguments, optimizers, resolve
from gossipjax.config.variant_checks import check_strategy
from gossipjax.errors import UserError, nearest
from gossipjax.simulation import cluster as machines
from gossipjax.tasks import named, shares

# The devices of a worker, and whether it computes while it exchanges.
_DEVICES = {
  # Number of devices that share the batch of a worker; 0: one device.
  'devices_per_worker': 0,
  # fsdp: each device holds a shard of the parameters; '': all parameters.
  'inner': '',
  # Link between the devices of a worker, given like `link`; '': nvlink.
  'inner_link': '',
  'overlap': False,  # Exchange while computing, see docs/hosts.md.
}
# The links on which communication seconds are modelled.
_LINKS = {
  'link': '1gbe',  # A preset of network.py, a JSON file, or a dict of numbers.
  # Link within groups of workers (hierarchical), given like `link`; '': `link`.
  'group_link': '',
}


def get_config(strategy: str = 'all_reduce') -> ConfigDict:
  """Returns a config: one strategy trains an MLP on scikit-learn's digits."""
  method = resolve.strategy_config(strategy)
  momentum = 0.0 if 'own_momentum' in method else 0.9
  rate = 0.001 if method.get('sign') else 0.1  # Each entry moves by the rate.
  return ConfigDict(
    {
      'workers': 8,
      **_DEVICES,
      'steps': 300,  # Local steps of each worker.
      'batch_size': 16,  # Examples per worker and step.
      'seed': 0,  # Of all random numbers; strategies add a seed of their own.
      'seeds': (),  # Train every variant with each, as (0, 1, 2); (): `seed`.
      'log_every': 20,  # Steps between two records.
      'eval_every': 20,  # Steps between held-out evaluations; 0: at the end.
      # Type in which losses are computed, such as bfloat16; '': the type of the
      # parameters, which keep their type in either case.
      'compute_dtype': '',
      # Micro-batches in a worker's batch (gradient accumulation); 0: one.
      'accumulate': 0,
      # Steps between two exact averages of the models' state (batch statistics)
      # over all workers; 0: they are averaged for evaluation only.
      'state_period': 0,
      'checkpoint_every': 100,  # Steps between checkpoints; 0: at the end only.
      # Loggers besides records.jsonl; each needs the pip extra of its name.
      'log': {'tensorboard': False, 'wandb': False},
      'executor': 'auto',  # vmap, shard_map, pmap; auto: shard_map if possible.
      'target': 0.0,  # Score to reach; 0: `target_share` of all-reduce's best.
      'target_share': 0.99,  # For a loss, 0.99 means 1 % above the lowest.
      'target_score': '',  # Name; '': accuracy, else loss, else first by name.
      **_LINKS,
      # Machines to simulate in virtual time, see `cluster`; {}: lock-step.
      'cluster': {},
      'engine': '',  # ray: each worker is a process, in real time; '': none.
      'data': {'dir': ''},  # '': $GOSSIPJAX_DATA, else data are downloaded.
      'task': task('digits'),
      'split': split('iid'),  # Divides examples among workers; holds some out.
      'optimizer': optimizer(
        'sgd', learning_rate=rate, momentum=momentum, nesterov=momentum > 0
      ),
      'strategy': method,
      'variants': {},
    },
    sort_keys=False,
  )


def filled(config: Mapping[str, Any]) -> dict[str, Any]:
  """Returns a config from JSON with defaults for all keys that it lacks, at any
  depth, as they were added after its version of gossipjax."""
  found = _with_parts({**json.loads(get_config().to_json()), **config})
  if isinstance(variants := found['variants'], dict):
    found['variants'] = {name: _with_parts(v) for name, v in variants.items()}
  return found


def _with_parts(changes: Any) -> Any:
  """Fills in defaults in the parts of a config, or of a variant's changes."""
  makers = {
    'split': split,
    'strategy': lambda name: (
      resolve.strategy_config(name) if name in resolve.STRATEGIES else {}
    ),
    'task': lambda name: task(name) if name in named.TASKS else {},
    'cluster': lambda _: cluster(),
  }
  if not isinstance(changes, dict):
    return changes
  found = dict(changes)
  for key, make in makers.items():
    part = found.get(key)
    if part and isinstance(part, dict) and ('name' in part or key == 'cluster'):
      defaults = ConfigDict(make(part.get('name')))
      found[key] = _whole(part, json.loads(defaults.to_json()))
  return found


def _whole(part: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
  """Returns `part` with the keys of `defaults` that it lacks, at any depth."""
  inside = {
    key: _whole(value, defaults[key])
    for key, value in part.items()
    if isinstance(value, dict) and isinstance(defaults.get(key), dict)
  }
  return {**defaults, **part, **inside}


def cluster(**given: Any) -> ConfigDict:
  """`config.cluster` with every key of gossipjax/simulation/cluster.py."""
  return ConfigDict(arguments.settings(machines.cluster, **given))


def task(name: str, **given: Any) -> ConfigDict:
  """`config.task` with every argument of that task.

  Args:
    name: a built-in task, or 'module:function' for a function of yours that
      returns a `gossipjax.Task`.
    **given: arguments of the task's function; None stands for the default.
  """
  known = arguments.settings(resolve.task_function(name), **given)
  for key in ('data_dir', 'name'):  # Set by the run.
    known.pop(key, None)
  return ConfigDict({'name': name, **known})


def split(name: str = 'iid', **given: Any) -> ConfigDict:
  """Returns `config.split` with every key of gossipjax/tasks/shares.py; any
  other key raises a UserError."""
  known = arguments.settings(shares.share_out, name=name)
  for key in (key for key in given if key not in known):
    raise UserError(f'config.split has no key {key!r}{nearest(key, known)}')
  return ConfigDict(arguments.settings(shares.share_out, name=name, **given))


def optimizer(name: str, learning_rate: float, **given: Any) -> ConfigDict:
  """`config.optimizer`: an optax optimizer, its schedule and arguments.

  Args:
    name: an optimizer of optax or optax.contrib, or 'module:function'.
    learning_rate: the highest rate of the schedule.
    **given: other keys, which replace defaults, and the optimizer's arguments.

  Raises:
    UserError: there is no such optimizer.
  """
  return ConfigDict(
    {
      'name': name,
      'learning_rate': learning_rate,
      # constant, cosine, piecewise, or a schedule of optax. With arguments:
      # defaults.optimizer(..., schedule={'name': ..., ...}).
      'schedule': 'constant',
      'warmup_steps': 0,  # Steps in which the rate rises linearly from zero.
      'boundaries': (),  # For piecewise: steps that divide the rate by ten.
      # Added to the aggregated gradient unless the optimizer applies it itself.
      'weight_decay': optimizers.weight_decay(name),
      **given,
    }
  )


def variants(*names: str, **strategies: ConfigDict | str) -> ConfigDict:
  """`config.variants` of a comparison of strategies, in this order.

  Args:
    *names: strategies with default arguments; also the variants' names.
    **strategies: for each name of a variant, a `config.strategy`, as
      `resolve.strategy_config` returns, or the name of a strategy.

  Raises:
    UserError: no name for a variant, no such strategy, or an object of Python.
  """
  chosen = {str(name): name for name in names} | strategies
  for name, given in chosen.items():
    check_strategy(name, given)
  return ConfigDict(
    {
      name: {
        'strategy': resolve.strategy_config(s) if isinstance(s, str) else s
      }
      for name, s in chosen.items()
    },
    sort_keys=False,
  )
