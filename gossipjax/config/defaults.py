"""Every key of a config, with its unit and default; builders for configs.

`config.variants` turns a run into a comparison: names, and what each changes.
"""

import json
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from gossipjax.config import arguments, optimizers, resolve
from gossipjax.config.variant_checks import check_name
from gossipjax.errors import UserError, nearest
from gossipjax.simulation import cluster as machines
from gossipjax.tasks import named, shares

# How each worker computes and exchanges.
_DEVICES = {
  # Devices of each worker, which share its batch; 0: one device.
  'devices_per_worker': 0,
  # fsdp: each device holds a shard of the parameters; '': each holds all.
  'inner': '',
  # Between the devices of a worker, named as `link` is; '': nvlink.
  'inner_link': '',
  'overlap': False,  # Late exchanges beside computing, see docs/hosts.md.
}
# To model communication with.
_LINKS = {
  'link': '1gbe',  # A preset of network.py, or a JSON file.
  # Within groups of workers (hierarchical), as `link`; '': `link`.
  'group_link': '',
}


def get_config(strategy: str = 'all_reduce') -> ConfigDict:
  """One run of a strategy: an MLP on scikit-learn's digits."""
  method = resolve.strategy_config(strategy)
  momentum = 0.0 if 'own_momentum' in method else 0.9
  rate = 0.001 if method.get('sign') else 0.1  # Signs make steps of its size.
  return ConfigDict(
    {
      'workers': 8,
      **_DEVICES,
      'steps': 300,  # Local steps of each worker.
      'batch_size': 16,  # Examples per worker and step.
      'seed': 0,  # Of all that is random; a strategy adds its own seed to it.
      'seeds': (),  # Each variant with each of them, such as (0, 1, 2).
      'log_every': 20,  # Steps between two records.
      'eval_every': 20,  # Steps between two held-out evaluations.
      # The type that losses are computed in, such as bfloat16; '': that of the
      # parameters, which stay as they are.
      'compute_dtype': '',
      # Micro-batches of a worker's batch, one after the other; 0: at once.
      'accumulate': 0,
      # Steps between two exact means of the state of models (batch norm); 0: no
      # mean in training, only for evaluation.
      'state_period': 0,
      'checkpoint_every': 100,  # Steps between checkpoints; 0: at the end only.
      # Loggers beside records.jsonl; each needs an extra of the same name.
      'log': {'tensorboard': False, 'wandb': False},
      'executor': 'auto',  # vmap, shard_map, pmap; auto: devices if enough.
      'target': 0.0,  # Score to be reached; 0: a share of all-reduce's best.
      'target_share': 0.99,  # Of a loss, 0.99 is one hundredth more.
      'target_score': '',  # '': accuracy, else loss, else first by name.
      **_LINKS,
      # Machines of virtual time, see `cluster` below; {}: train in lock-step.
      'cluster': {},
      'engine': '',  # ray: in real time, each worker in a process of its own.
      'data': {'dir': ''},  # Else $GOSSIPJAX_DATA, else downloaded.
      'task': task('digits'),
      'split': split('iid'),  # How examples are shared out and held out.
      'optimizer': optimizer(
        'sgd', learning_rate=rate, momentum=momentum, nesterov=momentum > 0
      ),
      'strategy': method,
      'variants': {},
    },
    sort_keys=False,
  )


def filled(config: Mapping[str, Any]) -> dict[str, Any]:
  """A config as JSON holds it, with defaults of the keys that it lacks, at any
  depth: those that were added since its version."""
  found = _with_parts({**json.loads(get_config().to_json()), **config})
  if isinstance(variants := found['variants'], dict):
    found['variants'] = {name: _with_parts(v) for name, v in variants.items()}
  return found


def _with_parts(changes: Any) -> Any:
  """What a config or a variant says, with all of each part it names."""
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
      known = ConfigDict(make(part.get('name')))
      found[key] = _whole(part, json.loads(known.to_json()))
  return found


def _whole(found: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
  """`found` with what it lacks of `known`, also in parts of both."""
  inside = {
    key: _whole(value, known[key])
    for key, value in found.items()
    if isinstance(value, dict) and isinstance(known.get(key), dict)
  }
  return {**known, **found, **inside}


def cluster(**given: Any) -> ConfigDict:
  """`config.cluster` with every key of gossipjax/simulation/cluster.py."""
  return ConfigDict(arguments.settings(machines.cluster, **given))


def task(name: str, **given: Any) -> ConfigDict:
  """`config.task` with every argument of that task.

  Args:
    name: of a built-in task, or 'module:function': a function of yours that
      returns a `gossipjax.Task`.
    **given: arguments of the task's function in place of its defaults.
  """
  known = arguments.settings(resolve.task_function(name), **given)
  for key in ('data_dir', 'name'):  # Set by the run.
    known.pop(key, None)
  return ConfigDict({'name': name, **known})


def split(name: str = 'iid', **given: Any) -> ConfigDict:
  """`config.split` with every key of gossipjax/tasks/shares.py; a UserError
  for any other one."""
  known = arguments.settings(shares.share_out, name=name)
  for key in (key for key in given if key not in known):
    raise UserError(f'config.split has no key {key!r}{nearest(key, known)}')
  return ConfigDict(arguments.settings(shares.share_out, name=name, **given))


def optimizer(name: str, learning_rate: float, **given: Any) -> ConfigDict:
  """`config.optimizer`: an optax optimizer, its schedule and arguments.

  Args:
    name: of optax or optax.contrib, or 'module:function'.
    learning_rate: the highest.
    **given: other keys, in place of defaults.

  Raises:
    UserError: there is no such optimizer.
  """
  return ConfigDict(
    {
      'name': name,
      'learning_rate': learning_rate,
      # constant, cosine, piecewise; or any of optax by name. With arguments:
      # defaults.optimizer(..., schedule={'name': ..., ...}).
      'schedule': 'constant',
      'warmup_steps': 0,  # Linear, from zero.
      'boundaries': (),  # Of piecewise: steps at which the rate falls tenfold.
      # Added to the aggregated gradient, if the optimizer has none of its own.
      'weight_decay': optimizers.weight_decay(name),
      **given,
    }
  )


def variants(*names: str, **strategies: ConfigDict | str) -> ConfigDict:
  """`config.variants` of a comparison of strategies, in this order.

  Args:
    *names: of strategies with their defaults, each the name of its variant.
    **strategies: by the name of the variant, `config.strategy` or the name of
      a strategy.

  Raises:
    UserError: a name that no variant, or no strategy, has.
  """
  chosen = {name: name for name in names} | strategies
  for name in strategies:
    check_name(name)
  return ConfigDict(
    {
      name: {
        'strategy': resolve.strategy_config(s) if isinstance(s, str) else s
      }
      for name, s in chosen.items()
    },
    sort_keys=False,
  )
