"""`--config.optimizer.KEY=VALUE` on the command line.

KEY may be any argument of the optimizer, also one that the config leaves at its
default. If another optimizer is named, its arguments replace those of the
config's optimizer, except that the learning-rate keys are kept. A new schedule
replaces the arguments of the old one, too.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from gossipjax.commands.new_part import set_key, value
from gossipjax.config import arguments, defaults, optimizers
from gossipjax.errors import UserError, nearest
from gossipjax.training import momentum, optimizer

_KEY = '--config.optimizer.'
_COMMON = 'learning_rate', 'schedule', 'warmup_steps', 'boundaries'


def take(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
  """Separates the words that set keys of the optimizer from all other words.

  Returns:
    The other words, and the value of each key as text. Words for the keys that
    every optimizer has stay among the others, unless a word names another
    optimizer or schedule.
  """
  prefixes = f'{_KEY}name=', f'{_KEY}schedule.'
  is_new = any(word.startswith(prefixes) for word in words)
  common = () if is_new else [f'{_KEY}{key}' for key in _COMMON]
  taken = [w for w in words if w.startswith(_KEY) and '=' in w]
  taken = [w for w in taken if w.partition('=')[0] not in common]
  pairs = (word.removeprefix(_KEY).split('=', 1) for word in taken)
  return [w for w in words if w not in taken], {k: v for k, v in pairs}


def put(
  config: ConfigDict, given: Mapping[str, str], follow: bool = True
) -> None:
  """Puts the optimizer that `take` found into a config.

  Args:
    config: of a run or a comparison.
    given: value texts by key, from `take`.
    follow: whether a `look_ahead` that equals the old Nesterov momentum changes
      to the new one.

  Raises:
    UserError: there is no such optimizer or argument, or a value has the wrong
      type.
  """
  if not given:
    return
  before = config.optimizer
  name = given.get('name', before.name)
  settings = {'name': name} | _settings(name)
  if name == before.name:
    fresh = before.copy_and_resolve_references()
    more = {k: v for k, v in settings.items() if k in given and k not in fresh}
    with fresh.unlocked():
      fresh.update(more)
  else:
    kept = {
      key: before[key]
      for key in inspect.signature(optimizer.schedule).parameters
      if key in before
    }
    fresh = ConfigDict(defaults.optimizer(**{**settings, **kept}))
  for key, text in given.items():
    if key.partition('.')[0] != 'schedule':
      if key not in (known := {*fresh, *settings}):
        raise UserError(f'optimizer.{key} is unknown{nearest(key, known)}')
      set_key(fresh, 'optimizer', key, text)
  _set_schedule(fresh, given)
  with config.ignore_type(), config.unlocked():
    config.optimizer = fresh
  if follow:
    _follow(config, before)


def _follow(config: ConfigDict, before: ConfigDict) -> None:
  """Sets `look_ahead` to the new momentum where it was the old momentum."""
  for run in (config, *(config.get('variants') or {}).values()):
    changes = (run.get('optimizer') or {}) if run is not config else {}
    if 'name' in (run.get('strategy') or {}) and 'name' not in changes:
      now, then = {**config.optimizer, **changes}, {**before, **changes}
      momentum.look_ahead(run.strategy, now, then)


def _settings(name: str) -> dict[str, Any]:
  """Arguments of an optimizer and their defaults. Tuples, such as Muon's
  coefficients, and functions, such as Adopt's limit, are left out: they have to
  be set in a config file."""
  function = optimizers.function(name)
  parameters = inspect.signature(function).parameters
  return {
    key: default
    for key, default in arguments.settings(function).items()
    if not isinstance(default, tuple) and not callable(parameters[key].default)
  }


def _set_schedule(config: ConfigDict, given: Mapping[str, str]) -> None:
  """Applies `schedule=NAME`, or `schedule.name=NAME schedule.KEY=VALUE ...`."""
  parts = {
    key.removeprefix('schedule.'): value(text)
    for key, text in given.items()
    if key.startswith('schedule.')
  }
  before = given.get('schedule', config.get('schedule', 'constant'))
  kept = {'name': before} if isinstance(before, str) else before.to_dict()
  if parts:
    before = ConfigDict(parts if 'name' in parts else kept | parts)
  with config.ignore_type():
    config.schedule = before
