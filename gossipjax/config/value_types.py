"""The type of each key of a config, which is that of its default."""

from ml_collections import ConfigDict

from gossipjax.config import defaults
from gossipjax.errors import UserError

_LINKS = ('link', 'group_link', 'inner_link')  # A name, or keys of its own.
_OTHER_TYPES = {float: (int,), tuple: (list,)}


def check(config: ConfigDict) -> None:
  """Raises a UserError for a key whose value has the wrong type.

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
