"""Makes strategy and optimizer agree on a momentum, or checks that they do."""

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from gossipjax.aggregator import Strategy
from gossipjax.config import resolve
from gossipjax.config.arguments import settings
from gossipjax.errors import UserError


def check(strategy: Mapping[str, Any], optimizer: Mapping[str, Any]) -> None:
  """Checks that strategy, its levels and optimizer agree on the momentum.

  A strategy does not see the optimizer. Its argument `look_ahead` is the
  Nesterov momentum that it removes before an exchange, which has to be the
  optimizer's. With `own_momentum` the optimizer must not have any momentum.

  Raises:
    UserError: they do not agree.
  """
  own = _nesterov(optimizer)
  for key, _, level in _levels(strategy):
    assumed = level.get('look_ahead') or 0
    if assumed not in (0, own):
      remedy = f'{key}.look_ahead={own:g}'
      raise UserError(
        f'{key}.look_ahead={assumed} of {level["name"]} needs '
        f'optimizer.name=sgd, nesterov=True and momentum={assumed}; for this '
        f'optimizer set --config.{remedy}, or, if a variant has this strategy, '
        f'--config.variants.VARIANT.{remedy}.'
      )
    if level.get('own_momentum') and optimizer.get('momentum'):
      raise UserError(
        f'strategy {level["name"]} has a momentum of its own; set '
        'optimizer.momentum=0 and optimizer.nesterov=False, for a variant in '
        'config.variants.VARIANT.optimizer.'
      )


def agree(config: ConfigDict) -> None:
  """Makes the optimizer and the strategy of a config agree, see `check`.

  If the strategy takes `own_momentum`, the optimizer's momentum is switched
  off. Any `look_ahead` becomes the optimizer's Nesterov momentum, or 0.
  """
  optimizer = config.optimizer
  levels = [*_levels(config.strategy)]
  if any('own_momentum' in level for *_, level in levels):
    for key, off in (('momentum', 0.0), ('nesterov', False)):
      if key in optimizer:
        optimizer[key] = off
  look_ahead(config.strategy, optimizer)


def look_ahead(
  strategy: ConfigDict,
  optimizer: Mapping[str, Any],
  before: Mapping[str, Any] | None = None,
) -> None:
  """Sets a strategy's `look_ahead` to the optimizer's Nesterov momentum.

  Args:
    strategy: changed in place, with its levels.
    optimizer: as in a config.
    before: an earlier optimizer; only a `look_ahead` equal to its momentum is
      changed. None: every one is.
  """
  old = None if before is None else _nesterov(before)
  for _, section, level in _levels(strategy):
    if 'look_ahead' in level and old in (None, level['look_ahead']):
      is_typed = isinstance(section, ConfigDict)  # Perhaps as an integer.
      with section.ignore_type() if is_typed else contextlib.nullcontext():
        section['look_ahead'] = _nesterov(optimizer)


def _nesterov(optimizer: Mapping[str, Any]) -> float:
  if optimizer['name'] != 'sgd' or not optimizer.get('nesterov'):
    return 0.0
  return optimizer.get('momentum') or 0.0


def _levels(
  strategy: Mapping[str, Any], key: str = 'strategy'
) -> Iterator[tuple[str, Any, dict[str, Any]]]:
  """A strategy and the levels in it, such as `strategy.outer`.

  Yields:
    Its key in a config; the value of that key; the value with all defaults.
  """
  function = resolve.strategy_function(strategy['name'])
  options = {k: v for k, v in strategy.items() if v is not None}
  yield key, strategy, settings(function) | options
  for name, parameter in inspect.signature(function).parameters.items():
    level = options.get(name)
    level = {'name': level} if isinstance(level, str) else level
    has_name = isinstance(level, Mapping | ConfigDict) and level.get('name')
    if parameter.annotation is Strategy and has_name:
      yield from _levels(level, f'{key}.{name}')
