"""The optimizers that a config names: those of optax, and the user's own."""

import functools
import inspect
from collections.abc import Callable

import optax
import optax.contrib

from gossipjax.config import own_functions


@functools.cache  # Nothing else in a config takes as long to look up.
def known() -> dict[str, Callable[..., optax.GradientTransformation]]:
  """The public optimizers of optax and optax.contrib, by name."""
  return {
    name: function
    for module in (optax.contrib, optax)
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if not name.startswith(('_', 'scale_by_'))
    and 'learning_rate' in inspect.signature(function).parameters
  }


def function(name: str) -> Callable[..., optax.GradientTransformation]:
  """The function that makes the optimizer of this name.

  Raises:
    UserError: there is no such optimizer.
  """
  return own_functions.find(name, known(), 'optimizer.name')


def weight_decay(name: str) -> float:
  """The default weight decay of an optimizer; 0 if it takes no such argument.

  Raises:
    UserError: there is no such optimizer.
  """
  found = inspect.signature(function(name)).parameters.get('weight_decay')
  return found.default if found and type(found.default) is float else 0.0
