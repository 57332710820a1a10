"""Finds the arguments that a config can set, and calls functions with them."""

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import ConfigDict, config_dict

from gossipjax import topology
from gossipjax.compressors import Compressor
from gossipjax.config.own_functions import find, returned, signature
from gossipjax.config.parts import PARTS, topologies
from gossipjax.errors import UserError, as_user_error, nearest, pick
from gossipjax.transforms.checked_compressor import of_compressor

PLAIN = (bool, int, float, str, tuple)


def _plain_types(annotation) -> tuple[type, ...]:
  """The types that a config may give for an argument; () if not plain."""
  if isinstance(annotation, types.UnionType):
    return sum(map(_plain_types, typing.get_args(annotation)), ())
  plain = typing.get_origin(annotation) or annotation
  return (plain,) if plain in PLAIN else ()


def settings(function: Callable, **given: Any) -> dict[str, Any]:
  """The arguments of a function that a config can set, with their defaults.

  An argument without a plain default is left out unless it is given. For a
  default of None, or a part such as a compressor, there is a placeholder of the
  argument's type.

  Args:
    function: the function whose arguments are listed.
    **given: values that replace defaults.

  Raises:
    UserError: the function has no such argument.
  """
  found, known = {}, signature(function).parameters
  open_ended = any(p.kind is p.VAR_KEYWORD for p in known.values())
  for name in given:
    if name not in known and not open_ended:
      raise UserError(
        f'{function.__name__} has no argument {name!r}{nearest(name, known)}'
      )
  for name, parameter in known.items():
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


def _any_part(kind: type) -> dict[str, Any]:
  """Placeholders for the name of a part of some kind, and for the arguments of
  all parts of that kind."""
  found = {'name': config_dict.placeholder(str)}
  for function in PARTS[kind].values():
    for key, parameter in signature(function).parameters.items():
      if parameter.annotation in PARTS:
        found[key] = _any_part(parameter.annotation)
      elif plain := _plain_types(parameter.annotation):
        found[key] = config_dict.placeholder(plain[0])
  return found


def _given(value: Any) -> Any:
  """A value without its unset placeholders; None if nothing is left."""
  if not isinstance(value, ConfigDict | dict):
    return value
  found = {k: _given(v) for k, v in value.items()}
  return {k: v for k, v in found.items() if v is not None} or None


def call(
  function: Callable,
  arguments: Mapping[str, Any],
  key: str,
  *positional: Any,
  seed: int = 0,
) -> Any:
  """Calls a function with arguments from a config.

  Args:
    function: the function to call; its annotations give the allowed types.
    arguments: from the config.
    key: the config key that holds these arguments, for error messages.
    *positional: further arguments, which come first.
    seed: of the run; added to the function's own `seed`, if it has one, and to
      those of its parts.

  Raises:
    UserError: a key is unknown, or a value has the wrong type.
  """
  parameters = signature(function).parameters
  keyword = list(parameters)[len(positional) :]
  resolved = {}
  for name, value in arguments.items():
    if name not in keyword:
      raise UserError(f'{key}.{name} is unknown{nearest(name, keyword)}')
    value = _given(value)
    if value is not None:
      resolved[name] = _resolve(
        value, parameters[name].annotation, f'{key}.{name}', seed
      )
  if seed and 'seed' in parameters:
    own_seed = resolved.get('seed', parameters['seed'].default)
    if own_seed is None or isinstance(own_seed, int):  # Else it is missing.
      resolved['seed'] = (own_seed or 0) + seed
  for name in keyword:
    if name not in resolved and _is_required(parameters[name]):
      of = getattr(function, '__name__', 'it')
      raise UserError(f'{key}.{name} is missing; {of} has no default for it.')
  with as_user_error(f'{key}: {getattr(function, "__name__", "it")}'):
    return function(*positional, **resolved)


def _is_required(parameter: inspect.Parameter) -> bool:
  variadic = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
  return parameter.default is parameter.empty and parameter.kind not in variadic


def _topology(value: Any, key: str, seed: int) -> topology.Topology:
  if not callable(value):
    return pick(value, topologies(seed), key)
  if getattr(value, '__annotations__', {}).get('return') == topology.Topology:
    raise _not_called(value, 'topology', key)
  return value


def _not_called(function: Any, kind: str, key: str) -> UserError:
  name = getattr(function, '__name__', 'it')
  return UserError(
    f'{key} is the function {name}; give the {kind} that it returns, '
    f'{key.rpartition(".")[2]}={name}(...).'
  )


def _resolve(value: Any, annotation: Any, key: str, seed: int) -> Any:
  if annotation == topology.Topology:
    return _topology(value, key, seed)
  if annotation in PARTS:
    is_part = isinstance(value, annotation)
    part = value if is_part else _part(annotation, value, key, seed)
    is_codec = isinstance(part, Compressor)
    return of_compressor(key, part) if is_codec else part
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
      _resolve(v, typing.get_args(annotation)[0], key, seed) for v in value
    )
  return value


def _part(kind: type, value: str | Mapping, key: str, seed: int) -> Any:
  options = PARTS[kind]
  if callable(value):
    raise _not_called(value, kind.__name__, key)
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
  function = find(name := arguments.pop('name'), options, f'{key}.name')
  found = call(function, arguments, key, seed=seed)
  return returned(found, kind, f'{key}.name', name)
