"""`--config.task.name=NAME` and `.strategy.name=NAME` on the command line, also
those of a variant, `--config.variants.VARIANT.strategy.name=NAME`.

The arguments of the named task or strategy replace those of the one in the
config, and can be set in the same command. `look_ahead` becomes the Nesterov
momentum of the optimizer unless it is set. For optimizers, which keep some
arguments, see `new_optimizer`.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from gossipjax.config import defaults, own_functions, resolve
from gossipjax.errors import UserError, nearest, pick
from gossipjax.training import momentum

_PARTS = {
  'task': (defaults.task, resolve.task_function),
  'strategy': (resolve.strategy_config, resolve.strategy_function),
}
Overrides = Mapping[str, Mapping[str, str]]
_NAMES = re.compile(
  r'--config\.((?:variants\.[^.=]+\.)?(?:task|strategy))\.name='
)


def take(words: Sequence[str]) -> tuple[list[str], Overrides]:
  """Separates the words about parts that a word names from all other words.

  Returns:
    The other words, and for each such part the value of each key as text.
  """
  others, overrides = list(words), {}
  for part in dict.fromkeys(m[1] for m in map(_NAMES.match, words) if m):
    start = f'--config.{part}.'
    taken = [w for w in others if w.startswith(start) and '=' in w]
    others = [w for w in others if w not in taken]
    pairs = (word.removeprefix(start).split('=', 1) for word in taken)
    overrides[part] = {key: text for key, text in pairs}
  return others, overrides


def put(config: ConfigDict, given: Overrides) -> None:
  """Puts the parts that `take` found into a config.

  Raises:
    UserError: there is no such part or argument, or a value has the wrong type.
  """
  for path, texts in given.items():
    *of_variant, part = path.split('.')
    node: Any = config
    if of_variant:
      known = config.get('variants') or {}
      node = pick(of_variant[-1], known, 'The variant of --config.variants')
    before = node.get(part) or {}
    is_same = before.get('name') == texts['name']
    kept = {k: v for k, v in before.items() if is_same and k != 'name'}
    fresh = _made(path, kept, texts)
    if (
      part == 'strategy'
      and not kept
      and not any(key.endswith('look_ahead') for key in texts)
    ):
      changes = node.get('optimizer') or {} if of_variant else {}
      momentum.look_ahead(fresh, {**config.optimizer, **changes})
    with node.ignore_type(), node.unlocked():
      node[part] = fresh


def _made(
  part: str, kept: Mapping[str, Any], texts: Mapping[str, str]
) -> ConfigDict:
  make, function = _PARTS[part.rpartition('.')[2]]
  name = texts['name']
  parameters = own_functions.signature(function(name)).parameters
  given = {
    key: text if parameters[key].annotation is str else value(text)
    for key, text in texts.items()
    if key in parameters
  }
  fresh = make(name, **{**kept, **given})
  for key, text in texts.items():
    if key not in given and key != 'name':
      set_key(fresh, part, key, text)
  return fresh


def set_key(fresh: ConfigDict, part: str, key: str, text: str) -> None:
  """Sets a key of a part, or of a part within it, such as compressor.density.

  Raises:
    UserError: there is no such key, or its value has the wrong type.
  """
  *parents, last = key.split('.')
  node: Any = fresh
  for parent in parents:
    node = node.get(parent) if isinstance(node, ConfigDict) else None
  if not isinstance(node, ConfigDict) or last not in node:
    known = node if isinstance(node, ConfigDict) else fresh
    raise UserError(f'{part}.{key} is unknown{nearest(last, known)}')
  try:
    node[last] = value(text)
  except (TypeError, ValueError) as error:
    raise UserError(
      f'--config.{part}.{key}={text} has the wrong type; it takes '
      f'{node.get_type(last).__name__}.'
    ) from error


def unset_argument(path: str, name: str, key: str) -> str:
  """Returns a message about a key that a task or a strategy lacks in a config.

  Args:
    path: of the task or strategy in the config.
    name: its name.
    key: either an argument that the config leaves at its default, or none.
  """
  _, function = _PARTS[path.rpartition('.')[2]]
  try:
    known = own_functions.signature(function(name)).parameters
  except UserError as error:
    return str(error)
  if key in known:
    return (
      f'config.{path} does not set {key!r}, an argument of {name}; to set it '
      f'on the command line, add --config.{path}.name={name}.'
    )
  return (
    f'config.{path}.name={name} has no argument {key!r}{nearest(key, known)}'
  )


def value(text: str) -> Any:
  """Reads a text as a Python literal, or as absl's `true` or `false`; any other
  text is returned as it is."""
  if text.lower() in ('true', 'false'):
    return text.lower() == 'true'
  try:
    return ast.literal_eval(text)
  except (ValueError, SyntaxError):
    return text
