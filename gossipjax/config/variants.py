"""The variants of a comparison: a base config and what each one changes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from gossipjax.config import ranges, variant_checks
from gossipjax.errors import UserError, nearest


def variants(config: ConfigDict) -> Iterator[tuple[str, ConfigDict]]:
  """Yields the runs of a config: the config itself, or one run per variant.

  With `config.seeds`, there is one such run per seed.

  Yields:
    The name of the run, which is also that of its folder, and its config.

  Raises:
    UserError: a variant has an unusable name, an unknown key or a wrong type.
  """
  from gossipjax.config import value_types  # JAX: runs are read without it.

  variant_checks.check_keys(config)
  value_types.check(config)
  base = {k: v for k, v in config.items() if k not in ('variants', 'seeds')}
  variant_checks.check_changes(config)
  for name, changes in changes_by_name(config).items():
    found = changed(base, changes, f'config.variants.{name}.')
    ranges.check(found)
    yield name, found


def changes_by_name(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
  """Returns the changes of each run of a config, by the name of the run.

  Args:
    config: a ConfigDict, or a dict as in config.json.
  """
  name = config['strategy']['name'].replace(':', '-').replace('.', '-')
  found = dict(config.get('variants') or {name: {}})
  if not config.get('seeds'):
    return found
  return {
    name + _suffix(seed): {**changes, 'seed': seed}
    for name, changes in found.items()
    for seed in config['seeds']
  }


def _suffix(seed: int) -> str:
  """What `config.seeds` adds to the name of a variant."""
  return f'-seed{seed}'


def without_seed(name: str, seed: Any) -> str:
  """The name of a run's variant: the run's name without the seed."""
  return name.removesuffix(_suffix(seed))


def merged_by_name(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
  """The config of each run of a comparison, as JSON holds it; not checked."""
  base = {k: v for k, v in config.items() if k not in ('variants', 'seeds')}
  return {
    name: merged(base, changes)
    for name, changes in changes_by_name(config).items()
  }


def changed(base: Any, changes: Any, where: str) -> ConfigDict:
  """Returns a config with some changes, whose keys and types are checked.

  Args:
    base: a config, or a dict of its keys.
    changes: keys of it and their new values, nested as in `base`.
    where: prefix of the keys in error messages: where the changes come from.

  Raises:
    UserError: a key is unknown, or a value has another type.
  """

  def check(base: Any, key: str, value: Any, path: str) -> None:
    if key not in base:
      raise UserError(f'{where}{path} is unknown{nearest(key, base)}')
    kind = _kind(base, key)
    if not isinstance(value, (kind, int) if kind is float else kind):
      named = f"{{'name': {value!r}}}" if isinstance(value, str) else 'a dict'
      takes = named if kind is ConfigDict else kind.__name__
      raise UserError(
        f'{where}{path}={value!r} has the wrong type; it takes {takes}.'
      )

  return ConfigDict(merged(base, changes, check))


def merged(
  base: Any,
  changes: Any,
  check: Callable[[Any, str, Any, str], None] = lambda *_: None,
  path: str = '',
) -> dict[str, Any]:
  """Returns `base` with `changes`; a part with a name is replaced as a whole.

  The reason is that another strategy, task or optimizer brings all of its own
  arguments. An empty part of `base` is replaced as a whole, too: the cluster of
  a lock-step config, for example, has no keys that could be merged.

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
  """The type that a key takes; a ConfigDict keeps it also for a value None."""
  if config[key] is None and isinstance(config, ConfigDict):
    return config.get_type(key)
  return type(config[key])
