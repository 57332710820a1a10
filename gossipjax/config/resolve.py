"""The tasks, strategies and links that a config names."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import ConfigDict

from gossipjax import network, strategies
from gossipjax.aggregator import Strategy
from gossipjax.config import own_functions
from gossipjax.config.arguments import call, settings
from gossipjax.config.parts import PARTS
from gossipjax.errors import UserError, pick
from gossipjax.tasks import named
from gossipjax.tasks.task import Task
from gossipjax.triggers import Trigger

STRATEGIES = tuple(m.name for m in pkgutil.iter_modules(strategies.__path__))


def task_function(name: str) -> Callable[..., Task]:
  """Returns the function of a built-in task, or a user's 'module:function'.

  Raises:
    UserError: there is no such function, or it has an argument `name`.
  """
  function = own_functions.find(name, named.TASKS, 'task.name')
  if ':' in str(name):
    _check_arguments(function, f'task.name={name}', 'task')
  return function


def task(config: Mapping[str, Any], data_dir: str = '') -> Task:
  """The task of `config.task`: a name and the function's arguments.

  Args:
    config: `config.task`.
    data_dir: `config.data.dir`, for functions that have such an argument.

  Raises:
    UserError: see `call`, or what the function refuses.
  """
  arguments = dict(config)
  function = task_function(name := arguments.pop('name'))
  if data_dir and 'data_dir' in inspect.signature(function).parameters:
    arguments['data_dir'] = data_dir
  found = call(function, arguments, 'task')
  return own_functions.returned(found, Task, 'task.name', name)


def strategy_function(name: str) -> Callable[..., Strategy]:
  """Returns the function of a strategy, or a user's 'module:function'.

  Raises:
    UserError: there is no such function.
  """
  if ':' in str(name):
    return own_functions.find(name, {}, 'strategy.name')
  pick(name, dict.fromkeys(STRATEGIES), 'strategy.name')
  return importlib.import_module(f'gossipjax.strategies.{name}').strategy


def strategy_config(name: str, **given: Any) -> ConfigDict:
  """`config.strategy` with every argument that the strategy takes.

  Raises:
    UserError: no such strategy, or it takes no such argument.
  """
  function = strategy_function(name)
  parameters = inspect.signature(function).parameters
  _check_arguments(function, f'strategy.name={name}', 'strategy')
  for key in given:
    pick(key, parameters, f'strategy {name}: argument')
  return ConfigDict({'name': name, **settings(function, **given)})


def _check_arguments(function: Callable, where: str, part: str) -> None:
  """Raises a UserError if a function has an argument that no config can set."""
  if 'name' in inspect.signature(function).parameters:
    raise UserError(
      f'{where}: its argument `name` cannot be set, since {part}.name is the '
      f'name of the {part}; rename the argument.'
    )


def strategy(
  config: Mapping[str, Any],
  rate: Callable[..., Any] | None = None,
  seed: int = 0,
) -> Strategy:
  """The strategy of `config.strategy`: a name and its arguments.

  Args:
    config: `config.strategy`.
    rate: the optimizer's schedule, for strategies that take this argument.
    seed: of the run, `config.seed`; added to the seeds of the strategy and its
      parts, so that each run draws numbers of its own.

  Raises:
    UserError: see `call`.
  """
  arguments = dict(config)
  function = strategy_function(name := arguments.pop('name'))
  if rate:
    arguments |= _scheduled(function, arguments, rate)
  found = call(function, arguments, 'strategy', seed=seed)
  return own_functions.returned(found, Strategy, 'strategy.name', name)


def _scheduled(
  function: Callable[..., Any],
  arguments: Mapping[str, Any],
  rate: Callable[..., Any],
) -> dict[str, Any]:
  """Passes the learning-rate schedule to a strategy as `rate`, and to its
  trigger as `schedule`, if they take these arguments.

  A `rate` that the config sets, for a user's own strategy, is kept.
  """
  takes = lambda f, argument: argument in inspect.signature(f).parameters
  takes_rate = takes(function, 'rate') and 'rate' not in arguments
  found: dict[str, Any] = {'rate': rate} if takes_rate else {}
  trigger = arguments.get('trigger')
  options = dict(trigger) if hasattr(trigger, 'items') else {'name': trigger}
  make = PARTS[Trigger].get(options.get('name'))
  if make and takes(make, 'schedule'):
    found['trigger'] = {**options, 'schedule': rate}
  return found


Choice = str | Mapping[str, float]


def links(
  choice: Choice, key: str = 'link', group: Choice = ''
) -> dict[str, network.Link]:
  """Returns the chosen link, followed by all presets, by name.

  Args:
    choice: the name of a preset or of a JSON file, or the arguments of
      `network.link`.
    key: the config key that gives the choice.
    group: `config.group_link`, like `choice`; '': the same link within groups.

  Raises:
    UserError: there is no such link; or see `network.with_group`.
  """
  if isinstance(choice, str) and choice.endswith('.json'):
    chosen = {choice: network.read(choice)}
  elif isinstance(choice, str):
    chosen = {choice: pick(choice, network.PRESETS, key)}
  else:
    chosen = {'custom': call(network.link, dict(choice), key)}
  found = chosen | network.PRESETS
  if not group:
    return found
  fast = next(iter(links(group, 'group_link').values()))
  return {name: network.with_group(slow, fast) for name, slow in found.items()}
