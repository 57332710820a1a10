"""The arguments with which a strategy ran, as a cell of a table."""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from gossipjax.config import resolve
from gossipjax.errors import UserError


def as_text(strategy: Mapping[str, Any]) -> str:
  """Lists the arguments that differ from the strategy's defaults; '' if none.

  Args:
    strategy: `config.strategy`, or a dict of it. All arguments are listed if
      its function is not found, as that of a user in another folder.
  """
  try:
    defaults = resolve.strategy_config(strategy['name']).to_dict()
  except UserError:
    defaults = {}
  given = ConfigDict(strategy).to_dict()
  return _listed(
    {k: v for k, v in given.items() if k != 'name' and v != defaults.get(k)}
  )


def _listed(arguments: dict[str, Any]) -> str:
  """Joins the arguments that have a value: 'name=value, name=value'."""
  values = {name: _value(value) for name, value in arguments.items()}
  return ', '.join(f'{name}={v}' for name, v in values.items() if v)


def _value(value: Any) -> str:
  """Formats a value: a part as NAME(arguments), None as '', others plainly."""
  if isinstance(value, dict):
    name = value.get('name') or ''
    inner = _listed({k: v for k, v in value.items() if k != 'name'})
    return f'{name}({inner})' if inner else name
  if value is None:
    return ''
  return f'{value:.4g}' if isinstance(value, float) else str(value)
