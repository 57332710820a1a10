"""Checks arguments given in Python as strictly as those of a config."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from gossipjax.aggregator import Strategy
from gossipjax.config import arguments, parts, resolve
from gossipjax.errors import UserError

# Keys whose value is the name of a link, or a dict of its numbers.
LINKS = ('link', 'group_link', 'inner_link')
_RAISES = 'Raises:\n  UserError: an argument is unknown, or no value for it.'


class Made(Strategy):
  """A strategy from `gossipjax.NAME(...)` that can be rebuilt for other seeds.

  Attributes:
    again: builds the strategy with a run's seed added to its own. None after
      `_replace`, since a rebuilt strategy would lack the replaced fields.
    config: `config.strategy` of the same strategy; None after `_replace`, or
      if an argument is an object that a config cannot name.
  """

  again: Callable[[int], Strategy] | None = None
  config: ConfigDict | None = None


def with_seed(strategy: Any, seed: int) -> Any:
  """Returns a strategy with a run's seed added to its own (`resolve.strategy`).

  A strategy that was built by hand, or any other value, is returned unchanged.
  """
  again = getattr(strategy, 'again', None)
  return again(seed) if seed and again else strategy


def strategy_function(name: str) -> Callable[..., Strategy]:
  """Returns the function of a strategy, for `gossipjax.NAME(...)`.

  It takes the values that a config takes, also names of parts such as 'ring'.
  `look_ahead` defaults to 0, because the function does not see the optimizer;
  with `optax.sgd(nesterov=True)` it has to be the momentum.

  Raises:
    UserError: there is no such strategy.
  """
  function = documented = resolve.strategy_function(name)
  if _looks_ahead(name):
    function = functools.partial(function, look_ahead=0.0)
  parameters = inspect.signature(function).parameters
  names = list(parameters)

  @functools.wraps(documented)
  def checked(*positional: Any, **given: Any) -> Strategy:
    twice = [key for key in names[: len(positional)] if key in given]
    if twice or len(positional) > len(names):
      raise UserError(
        f'gj.{name} takes {", ".join(names) or "no arguments"}, each once; '
        f'it is given {len(positional)} without a name'
        f'{"".join(f" and {key}" for key in given)}.'
      )
    values = dict(zip(names, positional, strict=False)) | given
    plain = {key: _plain(value) for key, value in values.items()}
    for key in plain.keys() & parameters.keys():
      if isinstance(parameters[key].default, Strategy):
        plain[key] = _named(plain[key])

    def again(seed: int) -> Strategy:
      seeded = {key: with_seed(value, seed) for key, value in plain.items()}
      return arguments.call(function, seeded, f'gj.{name}', seed=seed)

    strategy = Made(*again(0))
    strategy.again = again
    strategy.config = _config(name, plain)
    return strategy

  module_doc = inspect.getdoc(inspect.getmodule(documented)) or ''
  doc = f'{module_doc}\n\n{documented.__doc__ or ""}'.rstrip()
  checked.__doc__ = f'{doc}\n\n{_RAISES}'
  checked.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
  return checked


def setting(key: str, value: Any, default: Any) -> Any:
  """Returns the value of a config key; None stands for the default.

  Raises:
    UserError: the value has the wrong type.
  """
  value = default if value is None else _plain(value)
  kind = Mapping if isinstance(default, ConfigDict) else type(default)
  kinds: tuple[Any, ...] = {float: (float, int), tuple: (tuple, list)}.get(
    kind, (kind,)
  )
  kinds = (str, Mapping) if key in LINKS else kinds
  valid = isinstance(value, (*kinds, ConfigDict) if Mapping in kinds else kinds)
  if isinstance(value, bool) and kind is not bool:
    valid = False
  if kind is tuple and valid:
    value = tuple(map(_plain, value))
    valid = all(type(x) is int for x in value)
  if not valid:
    words = {Mapping: 'dict', tuple: 'tuple of int', list: ''}
    names = [words.get(x, getattr(x, '__name__', '')) for x in kinds]
    raise UserError(
      f'compare: {key}={value!r} has the wrong type; it takes '
      f'{" or ".join(filter(None, names))}.'
    )
  return value


def _config(name: str, given: Mapping[str, Any]) -> ConfigDict | None:
  """`config.strategy` of these arguments; None if a config cannot hold one."""
  ahead = {'look_ahead': 0.0} if _looks_ahead(name) else {}
  values = _in_config(given)
  if values is None:
    return None
  return resolve.strategy_config(name, **ahead | dict(values))


def _in_config(value: Any) -> Any:
  """An argument as a config holds it, None for an object without a name."""
  if isinstance(value, Made):
    return value.config
  if isinstance(value, Mapping):
    found = {key: _in_config(part) for key, part in value.items()}
    lost = any(found[key] is None is not value[key] for key in found)
    return None if lost else ConfigDict(found)
  if callable(value):
    name = getattr(value, '__name__', '')
    return name if parts.topologies().get(name) is value else None
  parts_of = value if type(value) is tuple else [value]
  return value if all(type(x) in arguments.PLAIN for x in parts_of) else None


def _named(part: Any) -> Any:
  """Gives a strategy inside another the same default `look_ahead`, 0."""
  given = {'name': part} if isinstance(part, str) else part
  name = given.get('name') if isinstance(given, Mapping) else ''
  if name not in resolve.STRATEGIES or not _looks_ahead(name):
    return part
  return {'look_ahead': 0.0} | dict(given)


def _looks_ahead(name: str) -> bool:
  return 'look_ahead' in resolve.strategy_config(name)


def _plain(value: Any) -> Any:
  """Converts a NumPy scalar to Python's; returns other values unchanged."""
  return value.item() if isinstance(value, np.generic) else value
