"""Functions of the user's own, by the name 'module:function'."""

import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from gossipjax.errors import UserError, nearest, pick


def find(name: str, options: Mapping[str, Any], key: str) -> Callable[..., Any]:
  """The function that a config names: one of `options`, or the user's own.

  Args:
    name: a key of `options`, or 'module:function' of a module that Python
      finds from the current folder.
    options: functions by name.
    key: the config key that holds the name, for error messages.

  Raises:
    UserError: there is no such name, or the module cannot be imported or has
      no such function.
  """
  if ':' not in str(name):
    return pick(name, options, key)
  path, _, function = name.partition(':')
  if {'', os.getcwd()}.isdisjoint(sys.path):
    sys.path.append(os.getcwd())  # As `python -m` does, for all programs.
  try:
    module = importlib.import_module(path)
  except Exception as error:
    raise UserError(
      f'{key}={name}: the module {path!r} does not import from {os.getcwd()} '
      f'or from what is installed ({type(error).__name__}: {error}).'
    ) from error
  functions = {k: f for k, f in vars(module).items() if callable(f)}
  if function not in functions:
    raise UserError(
      f'{key}={name}: {path} has no function {function!r}'
      f'{nearest(function, functions)}'
    )
  return functions[function]


def returned(found: Any, kind: type, key: str, name: str) -> Any:
  """Checks that what a function returned has the right type, and returns it.

  Raises:
    UserError: it has another type; the message names the key and function.
  """
  if not isinstance(found, kind):
    raise UserError(
      f'{key}={name} returned {type(found).__name__}; it has to return a '
      f'{kind.__name__}.'
    )
  return found


def signature(function: Callable) -> inspect.Signature:
  """The signature of a function, with annotations as types where they are
  texts, as after `from __future__ import annotations`."""
  kept = inspect.isfunction(function)  # Others may not be hashable.
  return (_signature if kept else _signature.__wrapped__)(function)


@functools.lru_cache(1024)
def _signature(function: Callable) -> inspect.Signature:
  try:
    return inspect.signature(function, eval_str=True)
  except Exception:  # A text that names nothing there.
    return inspect.signature(function)
