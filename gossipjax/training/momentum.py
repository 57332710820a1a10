"""Checks that only one of strategy and optimizer has a momentum."""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from gossipjax.errors import UserError


def check(strategy: Mapping[str, Any], optimizer: Mapping[str, Any]) -> None:
  """Checks that strategy and optimizer agree on the momentum.

  A strategy does not see the optimizer. `look_ahead` is the Nesterov momentum
  that it removes before an exchange; `own_momentum` replaces the optimizer's.

  Raises:
    UserError: they do not agree.
  """
  theirs = optimizer.get('momentum') or 0
  assumed = strategy.get('look_ahead') or 0
  if assumed and (optimizer['name'], optimizer.get('nesterov'), theirs) != (
    'sgd',
    True,
    assumed,
  ):
    raise UserError(
      f'strategy.look_ahead={assumed} needs optimizer.name=sgd, '
      f'nesterov=True and momentum={assumed}; strategy.look_ahead=0 takes '
      'any optimizer.'
    )
  if strategy.get('own_momentum') and theirs:
    raise UserError(
      f'strategy {strategy["name"]} has a momentum of its own; set '
      'optimizer.momentum=0 and optimizer.nesterov=False.'
    )


def agree(config: ConfigDict) -> None:
  """Makes the optimizer and the strategy of a config agree, see `check`.

  A strategy with a momentum of its own gets an optimizer without one, another
  one looks ahead by the optimizer's Nesterov momentum, or not at all.
  """
  strategy, optimizer = config.strategy, config.optimizer
  if 'own_momentum' in strategy and 'momentum' in optimizer:
    optimizer.momentum = 0.0
    if 'nesterov' in optimizer:
      optimizer.nesterov = False
  if 'look_ahead' in strategy:
    ahead = optimizer.name == 'sgd' and optimizer.get('nesterov')
    strategy.look_ahead = optimizer.get('momentum') or 0.0 if ahead else 0.0
