"""Whether functions are this package's, or hold some that a user wrote."""

import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

# Packages whose functions ours may hold; laws and golden figures cover those.
_OURS = 'gossipjax', 'jax', 'optax', 'numpy', 'builtins', 'functools'


def is_ours(function: Any) -> bool:
  """Whether a function, and all that it closes over, is of this package.

  Args:
    function: the search covers its closure, defaults, partial arguments, and
      the tuples, lists, mappings and methods in them.
  """
  seen: set[int] = set()
  pending = [function]
  while pending:
    value = pending.pop()
    if id(value) in seen:
      continue
    seen.add(id(value))
    if callable(value) and not _is_known(value):
      return False
    pending += _held(value)
  return True


def _is_known(function: Any) -> bool:
  module = getattr(function, '__module__', None) or type(function).__module__
  return module.partition('.')[0] in _OURS


def _held(value: Any) -> Iterator[Any]:
  if isinstance(value, functools.partial):
    yield from (value.func, *value.args, *value.keywords.values())
  elif inspect.ismethod(value):
    yield from (value.__func__, value.__self__)
  elif inspect.isfunction(value):
    cells = value.__closure__ or ()
    yield from (c.cell_contents for c in cells if not _is_empty(c))
    yield from (
      *(value.__defaults__ or ()),
      *(value.__kwdefaults__ or {}).values(),
    )
    if hasattr(value, '__wrapped__'):
      yield value.__wrapped__
  elif isinstance(value, tuple | list):
    yield from value
  elif isinstance(value, Mapping):
    yield from value.values()


def _is_empty(cell: Any) -> bool:
  try:
    cell.cell_contents  # noqa: B018
  except ValueError:  # Of a name that is not set yet.
    return True
  return False
