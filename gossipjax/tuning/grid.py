"""Values of config keys, and the points of their product."""

import ast
import collections
import functools
import hashlib
import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
from ml_collections import ConfigDict

from gossipjax.config.variants import changed
from gossipjax.errors import UserError
from gossipjax.tuning import unknown_key

# Values by key of a config, such as 'strategy.k'.
Grid = Mapping[str, Sequence[Any]]
Point = dict[str, Any]  # One value for each key.
LONGEST = 255  # Bytes of a folder's name.
# Keys that cannot be tuned, and why.
OURS = {
  'seed': 'set it by --seeds',
  'seeds': 'set it by --seeds',
  'variants': 'set it in the config',
  'strategy.name': 'give the config `variants` of these strategies',
  'split.holdout': 'trials are always scored on the validation split',
  'split.validation': 'set it in the config',
}
# Keys of config.cluster, set so that no target ends a run.
ENDLESS = {'target_accuracy': 0.0, 'target_score': '', 'target': 0.0}


def parse(given: Sequence[str]) -> Grid:
  """The grid that 'key=value,value' words describe."""
  grid = {}
  for text in given:
    key, _, values = text.partition('=')
    if not values:
      raise UserError(
        f'--grid {text} has no values; write it as '
        'optimizer.learning_rate=0.05,0.1.'
      )
    if key in grid:
      raise UserError(
        f'--grid {key} is given twice; name all its values in one.'
      )
    grid[key] = _values(values)
  return grid


def _values(text: str) -> tuple[Any, ...]:
  """Python literals, which may contain commas; other text is split at them."""
  try:
    return ast.literal_eval(f'({text},)')
  except (ValueError, SyntaxError):
    return tuple(map(_value, text.split(',')))


def _value(text: str) -> Any:
  try:
    return ast.literal_eval(text)
  except (ValueError, SyntaxError):
    return text


def check(grid: Grid, configs: Iterable[ConfigDict]) -> None:
  """Checks that the grid has choices, and keys of the configs.

  Raises:
    UserError: no grid, fewer than two values of a key, a key that no config has
      or that tuning sets itself.
  """
  if not grid:
    raise UserError(
      '--grid is missing; give it a key and values, such as '
      'optimizer.learning_rate=0.05,0.1.'
    )
  configs = list(configs)
  for key, values in grid.items():
    if key in OURS:
      raise UserError(f'--grid {key} cannot be tuned; {OURS[key]}.')
    if not any(has(config, key) for config in configs):
      known = dict.fromkeys(k for config in configs for k in _keys(config))
      raise UserError(unknown_key.sentence(key, known, configs))
    repeated = [v for i, v in enumerate(values) if v in values[:i]]
    if len(values) < 2 or repeated:
      raise UserError(
        f'--grid {key}={",".join(map(str, values))} needs two or '
        'more values, each once.'
      )


def has(config: ConfigDict, key: str) -> bool:
  """Whether the config has that key."""
  return key in _keys(config)


def _keys(config: ConfigDict, prefix: str = '') -> list[str]:
  nested = [(prefix + k, v) for k, v in config.items()]
  return [
    name
    for k, v in nested
    for name in (_keys(v, f'{k}.') if isinstance(v, ConfigDict) else [k])
  ]


def points(grid: Grid, config: ConfigDict, budget: int | None) -> list[Point]:
  """The points that one variant tries: all of the grid, or `budget` of them.

  Keys that the variant lacks are left out. Points are drawn one by one, each
  time one whose values were drawn least often, so the counts of two values of a
  key differ by at most one, rarely by two. The draw depends on the seed of the
  config, so variants with the same keys try the same points.
  """
  subgrid = {key: grid[key] for key in grid if has(config, key)}
  every = [
    dict(zip(subgrid, values, strict=True))
    for values in itertools.product(*subgrid.values())
  ]
  if budget is None or budget >= len(every):
    return every
  order = np.random.default_rng(config.seed).permutation(len(every)).tolist()
  times, drawn = collections.Counter(), []
  # As text, since a list is not hashable.
  texts = [[*map(str, point.items())] for point in every]
  for _ in range(budget):
    least = min(order, key=lambda i: sum(times[v] for v in texts[i]))
    order.remove(least)
    drawn.append(least)
    times.update(texts[least])
  return [every[i] for i in sorted(drawn)]


def folder_name(point: Mapping[str, Any]) -> str:
  """A point as the name of a folder, of at most LONGEST bytes."""
  words = ','.join(f'{key}={value}' for key, value in point.items())
  if len(name := quote(words, safe='=,.')) <= LONGEST:
    return name
  digest = hashlib.sha256(name.encode()).hexdigest()[:16]
  return f'{name[: LONGEST - len(digest) - 1]}-{digest}'


def nested(point: Mapping[str, Any]) -> ConfigDict:
  """{'a.b': 1} as {'a': {'b': 1}}."""
  result = {}
  for key, value in point.items():
    *groups, name = key.split('.')
    node = result
    for group in groups:
      node = node.setdefault(group, {})
    node[name] = value
  return ConfigDict(result)


def at(config: ConfigDict, point: Point) -> ConfigDict:
  """The config with the values of that point, every other value as it was.

  Raises:
    UserError: a key is unknown, or a value has another type.
  """
  return changed(config, changes(config, point), '--grid ')


def of_trial(config: ConfigDict, point: Point) -> ConfigDict:
  """The config at a point, scored on the validation split after all steps: a
  trial that ended at a target would be judged by how far it overshoots it."""
  ends = {f'cluster.{key}': value for key, value in ENDLESS.items()}
  overrides = {key: value for key, value in ends.items() if has(config, key)}
  return at(config, {**point, **overrides, 'split.holdout': 'validation'})


def changes(config: ConfigDict, point: Point) -> ConfigDict:
  """Returns the changes that bring a config, or a variant of it, to a point.

  A part whose name changes is included whole, with the values that it keeps,
  since a part with a name replaces the previous one.
  """
  renamed = [k.removesuffix('.name') for k in point if k.endswith('.name')]
  parts = {
    part: functools.reduce(operator.getitem, part.split('.'), config).to_dict()
    for part in renamed
  }
  return nested({**parts, **point})
