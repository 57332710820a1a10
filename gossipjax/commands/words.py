"""Writes each config override of a command line as one word, and refuses
overrides without effect."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from gossipjax.errors import UserError


def joined(words: Sequence[str]) -> list[str]:
  """Writes all forms of an override as `--config.KEY=VALUE`.

  The forms are `--config.KEY VALUE`, `--config.KEY` (True), `--noconfig.KEY`
  (False), and those with one hyphen. --config=FILE comes first, since
  ml_collections needs it before overrides.

  Args:
    words: without the program's name. Words after `--` stay as they are.
  """
  found = list(_joined(iter(words)))
  end = found.index('--') if '--' in found else len(found)
  options = sorted(
    found[:end], key=lambda word: not word.startswith('--config=')
  )
  return options + found[end:]


def _joined(words: Iterator[str]) -> Iterator[str]:
  word = next(words, None)
  while word is not None:
    name = word.lstrip('-')
    following = next(words, None)
    if word == '--':
      yield word
      yield from [following, *words] if following is not None else ()
      return
    if word == name or not name.startswith(('config', 'noconfig.')):
      yield word
    elif '=' in name:
      yield f'--{name}'
    elif name.startswith('noconfig.'):
      yield f'--{name.removeprefix("no")}=False'
    elif following is None or following.startswith('--'):
      yield f'--{name}=True' if '.' in name else f'--{name}'
    else:
      yield f'--{name}={following}'
      following = next(words, None)
    word = following


def check_used(words: Sequence[str], config: ConfigDict) -> None:
  """Refuses overrides that have no effect, since every variant sets the key
  itself, and overrides of one variant that change another one, too.

  Args:
    words: as `joined` returns them.
    config: with the overrides.

  Raises:
    UserError: there is such an override; names its key, and a remedy.
  """
  variants = dict(config.get('variants') or {})
  first = next(iter(variants), '')
  for word in words:
    key = word.partition('=')[0].removeprefix('--config.')
    if key == 'seed' and config.get('seeds'):
      raise UserError(
        f'--config.seed has no effect beside config.seeds={config.seeds}; '
        'leave one of them out.'
      )
    if key == 'seeds' and (text := word.partition('=')[2]).isdigit():
      raise UserError(
        f'{word} is seed {text} alone: name several seeds, such as '
        f"--config.seeds=0,1,2, or write --config.seeds='({text},)'."
      )
    replaced = [_replaced(each, key.split('.')) for each in variants.values()]
    if key != word and replaced and all(replaced):
      raise UserError(
        f'--config.{key} has no effect, since every variant sets its own '
        f'{replaced[0]}; set --config.variants.{first}.{key}, or use a config '
        'without variants, such as configs/default.py.'
      )
    if key.startswith('variants.'):
      _check_unshared(key, variants)


def _check_unshared(key: str, variants: Mapping[str, Any]) -> None:
  """Refuses a key of a dict that two variants share: it would change both."""
  _, name, *keys = key.split('.')
  node, others = variants.get(name), {**variants, name: None}
  for part in keys:
    if not isinstance(node, ConfigDict):
      return
    if shared := next((n for n, other in others.items() if other is node), ''):
      raise UserError(
        f'--config.{key} would change variant {shared}, too, since the config '
        'gives both the same dict; write one for each, or copy it.'
      )
    node = node.get(part)
    others = {
      n: other.get(part)
      for n, other in others.items()
      if isinstance(other, ConfigDict)
    }


def _replaced(changes: Any, keys: Sequence[str]) -> str:
  """The key, or the named part around it, that a variant's changes replace; ''
  if they leave the key as it is."""
  for depth, key in enumerate(keys):
    is_part = isinstance(changes, Mapping | ConfigDict)
    if not is_part or (depth and 'name' in changes):
      return '.'.join(keys[:depth])
    if key not in changes:
      return ''
    changes = changes[key]
  return '.'.join(keys)
