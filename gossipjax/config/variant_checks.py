"""Checks of a config, and of the names and keys of its variants."""

import re
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from gossipjax.errors import UserError

# Keys that every run needs: NAMED parts, which a variant replaces as a whole.
NAMED = ('task', 'split', 'optimizer', 'strategy')
INTEGERS = (
  'workers',
  'steps',
  'batch_size',
  'seed',
  'log_every',
  'eval_every',
  'checkpoint_every',
)
NEEDED = (*NAMED, *INTEGERS, 'executor', 'link', 'data')
LONGEST = 200  # Bytes of a variant's name, which is also that of a folder.


def check_name(name: Any) -> None:
  """Raises a UserError if a variant's name cannot be that of its folder."""
  plain = name.replace('_', '').replace('-', '') if type(name) is str else ''
  if not plain.isalnum() or len(name.encode()) > LONGEST:
    raise UserError(
      f'config.variants: variant name {str(name)[:40]!r} is not allowed; use '
      f'letters, digits, _ and - only, at most {LONGEST} bytes.'
    )
  if re.search(r'-seed-?\d+$', name):
    raise UserError(
      f'config.variants: variant name {name!r} is not allowed; names of runs '
      'with config.seeds end in -seed and a number.'
    )


def check_strategy(name: Any, strategy: Any) -> None:
  """Raises a UserError if this cannot be a variant's name and strategy."""
  if not isinstance(strategy, str | Mapping | ConfigDict):
    raise UserError(
      f'config.variants.{name:.40} is an object of type '
      f'{type(strategy).__name__}; give the name of a strategy, or '
      "resolve.strategy_config('topk', density=0.01)."
    )
  check_name(name)


def check_changes(config: ConfigDict) -> None:
  """Raises a UserError for seeds and variants that cannot be compared."""
  seeds = config.get('seeds', ())
  if len({*seeds}) < len(seeds):
    raise UserError(f'config.seeds={seeds} has a seed twice.')
  for name, changes in (config.get('variants') or {}).items():
    if not isinstance(changes, dict | ConfigDict):
      raise UserError(
        f'config.variants.{name}={changes!r} is not a dict; give the keys to '
        'change and their values.'
      )
    check_name(name)
    if seeds and 'seed' in changes:
      raise UserError(
        f'config.variants.{name}.seed has no effect beside config.seeds; leave '
        'one of them out.'
      )
  _check_seconds(config)


def _check_seconds(config: ConfigDict) -> None:
  """Raises a UserError if seconds of the variants cannot be compared: their
  links or targets differ, or only some are modelled, virtual or measured."""
  first = None
  for name, changes in (config.get('variants') or {}).items():
    for key in ('link', 'group_link', 'target', 'target_share', 'target_score'):
      if key in changes and changes[key] != config.get(key):
        raise UserError(
          f'config.variants.{name}.{key}: a comparison has one {key}; run it '
          f'again with another --config.{key} and workdir.'
        )
    setting = lambda key: changes.get(key, config.get(key))
    clock = bool(setting('cluster')), setting('engine')
    first = first or (name, clock)
    if clock != first[1]:
      key = 'cluster' if clock[0] != first[1][0] else 'engine'
      raise UserError(
        f'config.variants.{name} and {first[0]}: only one has a '
        f'config.{key}, and seconds that are modelled, virtual and measured '
        'are not comparable; give it to both or compare them in two workdirs.'
      )


def check_keys(config: Any) -> None:
  """Raises a UserError unless a config has all keys that every run needs."""
  if not isinstance(config, ConfigDict):
    raise UserError(
      f'get_config() returned {type(config).__name__}; it has to return a '
      'ConfigDict, as gossipjax.config.defaults.get_config() does.'
    )
  for key in NEEDED:
    if key not in config:
      raise UserError(
        f'The config has no key {key!r}; begin with '
        'gossipjax.config.defaults.get_config(), which has all.'
      )
  for key in INTEGERS:
    if type(config[key]) is not int:
      raise UserError(f'config.{key}={config[key]!r} is not an integer.')
  for key in NAMED:
    if not isinstance(config[key], ConfigDict) or not config[key].get('name'):
      raise UserError(
        f'config.{key}={config[key]} has no name; build it with '
        'gossipjax.config.defaults.'
      )
  data = config.data
  if not isinstance(data, ConfigDict) or not isinstance(data.get('dir'), str):
    raise UserError(
      f"config.data={data} has no folder; set config.data.dir, '' for the "
      'default.'
    )
