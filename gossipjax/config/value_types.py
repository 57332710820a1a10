"""The type of each key of a config, which is that of its default."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from gossipjax.config import defaults
from gossipjax.errors import UserError

_LINKS = ('link', 'group_link', 'inner_link')  # A name, or keys of its own.
_OTHER_TYPES = {float: (int,), tuple: (list,)}


def check(config: ConfigDict) -> None:
  """Raises a UserError for a key whose value has the wrong type, or a value
  that the files of a run cannot hold.

  A ConfigDict does not check enough: it accepts None for any key, and a config
  file can switch its type checks off.
  """
  for key, default in defaults.get_config().items():
    kinds = (type(default), *_OTHER_TYPES.get(type(default), ()))
    kinds += (ConfigDict,) if key in _LINKS else ()
    value = config.get(key, default)
    flag = isinstance(value, bool) and bool not in kinds  # A bool is an int.
    if flag or not isinstance(value, kinds):
      raise UserError(
        f'config.{key}={value!r} has the wrong type; it takes '
        f'{" or ".join(kind.__name__ for kind in kinds)}.'
      )
  _check_plain('config', config)


def _check_plain(path: str, value: Any) -> None:
  if isinstance(value, ConfigDict | Mapping):
    for key, part in value.items():
      _check_plain(f'{path}.{key}', part)
  elif isinstance(value, tuple | list):
    for part in value:
      _check_plain(path, part)
  elif isinstance(value, np.generic | np.ndarray):
    raise UserError(
      f'{path}={value!r} is of NumPy; give a number of Python, {path}='
      f'{value.tolist()!r}.'
    )
  elif not isinstance(value, bool | int | float | str | None):
    name = getattr(value, '__name__', type(value).__name__)
    raise UserError(
      f'{path} is {name!r} of type {type(value).__name__}; a config holds '
      "numbers and texts, such as the name 'module:function' of a function."
    )
