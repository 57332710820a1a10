"""The variants of a comparison: a base config and what each one changes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from gossipjax.config import ranges
from gossipjax.errors import UserError, nearest

# What every run needs: groups that are replaced as a whole, integers, others.
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
LONGEST = 200  # Bytes of the name of a variant, hence of a folder.


def variants(config: ConfigDict) -> Iterator[tuple[str, ConfigDict]]:
  """The runs of a config: itself, or each of `config.variants` on top of it.

  With `config.seeds`, each of them with each seed.

  Yields:
    A name, which is also that of a folder, and the config of the run.

  Raises:
    UserError: a variant has an unusable name, an unknown key or a wrong type.
  """
  _check_keys(config)
  base = {k: v for k, v in config.items() if k not in ('variants', 'seeds')}
  if len({*config.get('seeds', ())}) < len(config.get('seeds', ())):
    raise UserError(f'config.seeds={config.seeds} has a seed twice.')
  for name, changes in (config.get('variants') or {}).items():
    if not isinstance(changes, dict | ConfigDict):
      raise UserError(
        f'config.variants.{name}={changes!r} is not a dict; give the keys to '
        'change and their values.'
      )
    check_name(name)
  _check_seconds(config)
  for name, changes in changes_by_name(config).items():
    found = changed(base, changes, f'config.variants.{name}.')
    ranges.check(found)
    yield name, found


def check_name(name: Any) -> None:
  """Raises a UserError for the name of a variant that no folder can have."""
  plain = name.replace('_', '').replace('-', '') if type(name) is str else ''
  if not plain.isalnum() or len(name.encode()) > LONGEST:
    raise UserError(
      f'config.variants: variant name {str(name)[:40]!r} is not allowed; use '
      f'letters, digits, _ and - only, at most {LONGEST} bytes.'
    )


def _check_seconds(config: ConfigDict) -> None:
  """Raises a UserError if seconds of the variants are not of one kind."""
  first = None
  for name, changes in (config.get('variants') or {}).items():
    for key in ('link', 'group_link'):
      if changes.get(key, config.get(key)) != config.get(key):
        raise UserError(
          f'config.variants.{name}.{key}: a comparison has one link; run it '
          f'again with another --config.{key} and workdir.'
        )
    given = lambda key: changes.get(key, config.get(key))
    clock = bool(given('cluster')), given('engine')
    first = first or (name, clock)
    if clock != first[1]:
      key = 'cluster' if clock[0] != first[1][0] else 'engine'
      raise UserError(
        f'config.variants.{name} and {first[0]}: only one has a '
        f'config.{key}, and seconds that are modelled, virtual and measured '
        'are not comparable; give it to both or compare them in two workdirs.'
      )


def _check_keys(config: Any) -> None:
  """Raises a UserError unless a config has all that every run needs."""
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


def changes_by_name(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
  """What each run of a config changes, by its name: that of its folder.

  Args:
    config: a ConfigDict, or a dict as in config.json.
  """
  name = config['strategy']['name'].replace(':', '-').replace('.', '-')
  found = dict(config.get('variants') or {name: {}})
  if not config.get('seeds'):
    return found
  return {
    f'{name}-seed{seed}': {**changes, 'seed': seed}
    for name, changes in found.items()
    for seed in config['seeds']
  }


def merged_by_name(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
  """The config of each run of a comparison, as JSON holds it; not checked."""
  base = {k: v for k, v in config.items() if k not in ('variants', 'seeds')}
  return {
    name: merged(base, changes)
    for name, changes in changes_by_name(config).items()
  }


def changed(base: Any, changes: Any, where: str) -> ConfigDict:
  """A config with some changes.

  Args:
    base: a config, or a dict of its keys.
    changes: keys of it and their new values, nested as in `base`.
    where: the changes come from, for error messages.

  Raises:
    UserError: a key is unknown, or a value has another type.
  """

  def check(base: Any, key: str, value: Any, path: str) -> None:
    if key not in base:
      raise UserError(f'{where}{path} is unknown{nearest(key, base)}')
    kind = _kind(base, key)
    if not isinstance(value, (kind, int) if kind is float else kind):
      raise UserError(
        f'{where}{path}={value!r} has the wrong type; it takes {kind.__name__}.'
      )

  return ConfigDict(merged(base, changes, check))


def merged(
  base: Any,
  changes: Any,
  check: Callable[[Any, str, Any, str], None] = lambda *_: None,
  path: str = '',
) -> dict[str, Any]:
  """`base` with `changes`; a part that has a name is replaced as a whole.

  For another strategy, task or optimizer brings all its own arguments. So is
  an empty part, such as the cluster of lock-step, which knows no key yet.

  Args:
    base: a dict or ConfigDict.
    changes: the same, nested as `base`.
    check: (base, key, value, path of the key) -> None, may raise.
    path: of `base` in the whole config.
  """
  result = dict(base)
  for key, value in changes.items():
    check(base, key, value, path + key)
    inside = result.get(key)
    nested = isinstance(value, dict | ConfigDict) and 'name' not in value
    if nested and inside:
      result[key] = merged(inside, value, check, f'{path}{key}.')
    else:
      result[key] = value
  return result


def _kind(config: Any, key: str) -> type:
  """The type that a key takes; a ConfigDict knows it of a key that is None."""
  if config[key] is None and isinstance(config, ConfigDict):
    return config.get_type(key)
  return type(config[key])
