"""The error message for a key of a grid that no variant has."""

import inspect
from collections.abc import Iterable, Sequence

from ml_collections import ConfigDict

from gossipjax.config import optimizers
from gossipjax.errors import closest, nearest


def sentence(
  key: str, known: Iterable[str], configs: Sequence[ConfigDict]
) -> str:
  """Says that no variant has a key, and names the nearest known key.

  Args:
    key: as the user wrote it.
    known: all keys of the variants.
    configs: of the variants, whose optimizers may have it as an argument.
  """
  default = (
    f' If optax sets it by default, add it first: --config.{key}=VALUE.'
    if any(_takes(config.optimizer.name, key) for config in configs)
    else ''
  )
  return (
    f'--grid {key}: no variant has such a key{_nearest(key, known)}{default}'
  )


def _takes(optimizer: str, key: str) -> bool:
  part, _, name = key.partition('.')
  parameters = inspect.signature(optimizers.function(optimizer)).parameters
  return part == 'optimizer' and name in parameters


def _nearest(key: str, known: Iterable[str]) -> str:
  """As `errors.nearest`; only the last part of a dotted key is looked up."""
  parent, _, last = key.rpartition('.')
  cut = (k.rpartition('.') for k in known)
  siblings = [name for prefix, _, name in cut if parent and prefix == parent]
  if close := closest(last, siblings):
    return f'; did you mean {parent + "." + close!r}?'
  return nearest(last, siblings) if siblings else nearest(key, known)
