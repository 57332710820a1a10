"""Forms of strategies: the code that the arguments of a strategy select.

Each form of which runs are kept has golden figures, so that no change of its
numbers leaves these runs unnoticed; see numerics.py.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from experiments.framework.result_store import ResultStore
from gossipjax.config import arguments, own_functions, resolve
from gossipjax.config.parts import PARTS


def name(strategy: Mapping[str, Any]) -> str:
  """Names a form: 'hylo' with its defaults, or 'hylo(level=mean)'.

  A number selects no code, unless the number or its default is 0 or None, by
  which something is off. Of a part, such as a trigger, its name does.

  Args:
    strategy: `config.strategy`, or a dict of it.
  """
  given = ConfigDict(strategy).to_dict()
  return _name(resolve.strategy_function(given['name']), given)


def _name(function: Callable[..., Any], given: dict[str, Any]) -> str:
  chosen = ', '.join(_choices(function, given))
  return f'{given["name"]}({chosen})' if chosen else given['name']


def _choices(
  function: Callable[..., Any], given: dict[str, Any]
) -> Iterator[str]:
  """Yields the arguments that select code; those of numbers by their key."""
  known = own_functions.signature(function).parameters
  defaults = arguments.settings(function)
  for key in sorted(given.keys() - {'name'}):
    value, default = given[key], known[key].default
    if value is None or value == defaults.get(key):
      continue
    if parts := PARTS.get(known[key].annotation):
      part = value if isinstance(value, dict) else {'name': value}
      if maker := parts.get(part.get('name')):
        yield f'{key}={_name(maker, part) if callable(maker) else value}'
    elif not isinstance(value, int | float) or isinstance(value, bool):
      yield f'{key}={value}'
    elif not value:
      yield f'{key}=0'
    elif not default or default is inspect.Parameter.empty:
      yield key


def kept(store: ResultStore | None = None) -> set[str]:
  """Names the forms of kept runs; `store` defaults to all committed runs."""
  store, texts = store or ResultStore(), set()
  for kind in store.kinds():
    for line in store.lines(kind).values():
      config = line['key'].get('config') or {}
      if strategy := config.get('strategy'):
        texts.add(json.dumps(strategy, sort_keys=True))
  return {name(json.loads(text)) for text in texts}
