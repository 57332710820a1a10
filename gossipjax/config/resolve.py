"""The config boundary: here strings turn into functions, and nowhere else."""

import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import ConfigDict, config_dict

from gossipjax import compressors, network, strategies, topology, triggers
from gossipjax.aggregator import Strategy
from gossipjax.compressors import selections
from gossipjax.errors import UserError, nearest
from gossipjax.transforms import granularity

PLAIN = (bool, int, float, str, tuple)
STRATEGIES = tuple(m.name for m in pkgutil.iter_modules(strategies.__path__))


def pick(name: str, options: Mapping[str, Any], key: str) -> Any:
  """`options[name]`, or a refusal that names `key`."""
  if name not in options:
    raise UserError(f'{key}={name} is unknown{nearest(str(name), options)}')
  return options[name]


def _topologies() -> dict[str, topology.Topology]:
  """Those of topology.py; the ones that are made from a seed, by default."""
  found = {}
  for name, f in inspect.getmembers(topology, inspect.isfunction):
    kind = inspect.signature(f).return_annotation
    if kind == topology.Topology:
      found[name] = f()
    elif kind == tuple[topology.Round, ...] and not name.startswith('_'):
      found[name] = f
  return found


def _strategy_function(name: str) -> Callable[..., Strategy]:
  pick(name, dict.fromkeys(STRATEGIES), 'strategy.name')
  return importlib.import_module(f'gossipjax.strategies.{name}').strategy


def _plain_types(annotation) -> tuple[type, ...]:
  """The types that a config may give for an argument; () if not plain."""
  if isinstance(annotation, types.UnionType):
    return sum(map(_plain_types, typing.get_args(annotation)), ())
  plain = typing.get_origin(annotation) or annotation
  return (plain,) if plain in PLAIN else ()


def settings(function: Callable, **given: Any) -> dict[str, Any]:
  """All that a config can say of a function: its defaults, `given` on top.

  What has no plain default is there only if given; where the default is None,
  or a part, there is a placeholder of the right type.
  """
  found = {}
  for name, parameter in inspect.signature(function).parameters.items():
    default, plain = parameter.default, _plain_types(parameter.annotation)
    if name in given:
      found[name] = given[name]
    elif default is None and plain:
      found[name] = config_dict.placeholder(plain[0])
    elif type(default) in PLAIN:  # A compressor is a tuple, but not plain.
      found[name] = default
    elif inspect.isfunction(default):
      found[name] = default.__name__
    elif parameter.annotation in PARTS:
      found[name] = _any_part(parameter.annotation)
  return found


def _makers(kind: type, module: types.ModuleType) -> dict[str, Callable]:
  """The public functions of a module that return a part of a kind, by name."""
  return {
    name: function
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if inspect.signature(function).return_annotation is kind
  }


def _selections() -> dict[str, Callable[..., selections.Selection]]:
  return {
    m.name: importlib.import_module(f'{selections.__name__}.{m.name}').selection
    for m in pkgutil.iter_modules(selections.__path__)
  }


# Arguments that a config gives as a name and arguments: all there are of a
# kind, by name.
PARTS = {
  compressors.Compressor: _makers(compressors.Compressor, compressors),
  selections.Selection: _selections(),
  triggers.Trigger: _makers(triggers.Trigger, triggers),
  granularity.Granularity: _makers(granularity.Granularity, granularity),
}


def _any_part(kind: type) -> dict[str, Any]:
  """A name and the arguments of all of a kind, none of them given."""
  found = {'name': config_dict.placeholder(str)}
  for function in PARTS[kind].values():
    for key, parameter in inspect.signature(function).parameters.items():
      if parameter.annotation in PARTS:
        found[key] = _any_part(parameter.annotation)
      elif plain := _plain_types(parameter.annotation):
        found[key] = config_dict.placeholder(plain[0])
  return found


def _given(value: Any) -> Any:
  """Without what nobody has set; None if that is all."""
  if not isinstance(value, ConfigDict | dict):
    return value
  found = {k: _given(v) for k, v in value.items()}
  return {k: v for k, v in found.items() if v is not None} or None


def strategy_config(name: str, **given: Any) -> ConfigDict:
  """`config.strategy` with every argument that the strategy takes."""
  function = _strategy_function(name)
  known = inspect.signature(function).parameters
  for key in given:
    pick(key, known, f'strategy {name}: argument')
  return ConfigDict({'name': name, **settings(function, **given)})


def call(
  function: Callable, arguments: Mapping[str, Any], key: str, *positional: Any
) -> Any:
  """Calls with arguments from a config, refusing unknown keys and types."""
  parameters = inspect.signature(function).parameters
  keyword = list(parameters)[len(positional) :]
  resolved = {}
  for name, value in arguments.items():
    if name not in keyword:
      raise UserError(f'{key}.{name} is unknown{nearest(name, keyword)}')
    value = _given(value)
    if value is not None:
      resolved[name] = _resolve(
        value, parameters[name].annotation, f'{key}.{name}'
      )
  for name in keyword:
    if name not in resolved and _is_required(parameters[name]):
      raise UserError(
        f'{key}.{name} is missing; {function.__name__} has no default for it.'
      )
  return function(*positional, **resolved)


def _is_required(parameter: inspect.Parameter) -> bool:
  variadic = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
  return parameter.default is parameter.empty and parameter.kind not in variadic


def _resolve(value: Any, annotation: Any, key: str) -> Any:
  if annotation == topology.Topology and not callable(value):
    return pick(value, _topologies(), key)
  if annotation in PARTS and not isinstance(value, annotation):
    return _part(PARTS[annotation], value, key)
  plain = _plain_types(annotation)
  if float in plain and isinstance(value, int):
    plain = (*plain, int)
  if plain and (
    not isinstance(value, plain)
    or (isinstance(value, bool) and bool not in plain)
  ):
    expected = ' or '.join(dict.fromkeys(t.__name__ for t in plain))
    raise UserError(f'{key}={value!r} has the wrong type; it takes {expected}.')
  if isinstance(value, tuple) and typing.get_args(annotation):
    return tuple(
      _resolve(v, typing.get_args(annotation)[0], key) for v in value
    )
  return value


def _part(
  options: Mapping[str, Callable], value: str | Mapping, key: str
) -> Any:
  if not isinstance(value, str | Mapping):
    raise UserError(
      f'{key}={value!r} has the wrong type; {key}.name takes '
      f'{", ".join(sorted(options))}.'
    )
  arguments = {'name': value} if isinstance(value, str) else dict(value)
  if 'name' not in arguments:
    raise UserError(
      f'{key}.{next(iter(arguments))} needs {key}.name; there are '
      f'{", ".join(sorted(options))}.'
    )
  function = pick(arguments.pop('name'), options, f'{key}.name')
  return call(function, arguments, key)


def strategy(config: Mapping[str, Any]) -> Strategy:
  """The strategy of `config.strategy`: a name and its arguments."""
  arguments = dict(config)
  name = arguments.pop('name')
  return call(_strategy_function(name), arguments, 'strategy')


def links(choice: str | Mapping[str, float]) -> dict[str, network.Link]:
  """All presets; the one that `config.link` chose, or describes, comes first.

  Args:
    choice: a preset's name, a JSON file's, or what `network.link` takes.
  """
  if isinstance(choice, str) and choice.endswith('.json'):
    chosen = {choice: network.read(choice)}
  elif isinstance(choice, str):
    chosen = {choice: pick(choice, network.PRESETS, 'link')}
  else:
    chosen = {'custom': call(network.link, dict(choice), 'link')}
  return chosen | network.PRESETS
