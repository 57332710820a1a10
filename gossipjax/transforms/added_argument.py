"""Adds an argument to a function that makes a strategy."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from gossipjax.aggregator import Strategy

Make = Callable[..., Strategy]


def with_argument(
  strategy: Make, name: str, default: Any, explained: str, apply: Callable
) -> Make:
  """Returns `strategy` with one more argument, which configs can set, too.

  Args:
    strategy: a function with defaults whose docstring begins with `Args:`.
    name: of the argument.
    default: its default, of the type that a config takes.
    explained: its description in the docstring.
    apply: `(make, given, value) -> Strategy`, where `make(**changes)` makes the
      strategy with the `given` arguments, updated by `changes`.
  """
  signature = inspect.signature(strategy)
  added = inspect.Parameter(
    name,
    inspect.Parameter.KEYWORD_ONLY,
    default=default,
    annotation=type(default),
  )

  @functools.wraps(strategy)
  def extended(*args, **kwargs):
    value = kwargs.pop(name, default)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    return apply(lambda **changes: strategy(**given | changes), given, value)

  parameters = [*signature.parameters.values(), added]
  given = signature.replace(parameters=parameters)
  extended.__signature__ = given  # type: ignore[attr-defined]
  extended.__doc__ = f'{strategy.__doc__.rstrip()}\n  {name}: {explained}'
  return extended
