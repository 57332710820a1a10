"""Writes a config with tuned values as a Python file for --config."""

import math
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from gossipjax.config import variants
from gossipjax.tuning import grid

_FILE = '''"""{doc}"""

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder


def get_config() -> ConfigDict:
  return ConfigDict({config}, sort_keys=False)
'''


def pin(config: ConfigDict, chosen: Mapping[str, grid.Point]) -> ConfigDict:
  """Puts the chosen values into the variants of a comparison.

  Args:
    config: of a comparison, or of one strategy.
    chosen: points by variant; of a single strategy, by the strategy's name.
  """
  result = _of_its_own(config)
  runs = dict(variants.variants(ConfigDict({**config, 'seeds': ()})))
  for variant, point in chosen.items():
    node = result.variants[variant] if result.variants else result
    with node.unlocked():
      _set(node, grid.changes(runs[variant], point))
  return result


def _of_its_own(config: ConfigDict) -> ConfigDict:
  """A copy in which no two keys share a dict or a value, in the same order.

  A ConfigDict keeps what was shared, so that a choice for one variant would
  reach the others; and it sorts dicts that are part of it.
  """
  copy = ConfigDict(sort_keys=False)
  for key, value in config.items():
    if isinstance(value, ConfigDict):
      copy[key] = _of_its_own(value)
    elif value is None:
      copy[key] = placeholder(config.get_type(key))
    else:
      copy[key] = value
  return copy


def _set(config: ConfigDict, changes: ConfigDict) -> None:
  for key, value in changes.items():
    if isinstance(value, ConfigDict) and key in config:
      _set(config[key], value)
    else:
      config[key] = value


def source(config: ConfigDict, doc: str) -> str:
  """A module with `get_config`, every key on a line of its own."""
  return _FILE.format(doc=doc, config=_literal(config, '  '))


def _literal(config: ConfigDict, indent: str) -> str:
  deeper = f'{indent}  '
  lines = [
    f'{deeper}{key!r}: {_value(config, key, deeper)},\n' for key in config
  ]
  return '{\n' + ''.join(lines) + indent + '}'


def _value(config: ConfigDict, key: str, indent: str) -> str:
  value: Any = config[key]
  if isinstance(value, ConfigDict):
    text = _literal(value, indent) if value else '{}'
    in_order = key == 'variants'  # Tables list variants in this order.
    return f'ConfigDict({text}, sort_keys=False)' if in_order else text
  kind = config.get_type(key)
  if value is None and kind is not type(None):
    return f'placeholder({kind.__name__})'
  return _plain(value)


def _plain(value: Any) -> str:
  """A value as source; repr writes inf and nan, which Python does not know."""
  if isinstance(value, float) and not math.isfinite(value):
    return f"float('{value}')"
  if isinstance(value, tuple):
    return f'({", ".join(map(_plain, value))}{"," * (len(value) == 1)})'
  return repr(value)
