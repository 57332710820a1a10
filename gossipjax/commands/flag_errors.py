"""Error messages for what flags, ml_collections and a config file raise."""

import re
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags

from gossipjax.commands import new_part
from gossipjax.config import defaults
from gossipjax.errors import closest, nearest


def of_file(error: Exception, words: Sequence[str]) -> str:
  """Returns a message for an exception of ml_collections or a config file.

  Args:
    error: what it raised.
    words: of the command line.
  """
  *_, last = traceback.extract_tb(error.__traceback__)
  if 'ml_collections' in last.filename:
    if isinstance(error, AttributeError | KeyError):
      return _about_key(error, words)
    if isinstance(error, ValueError):
      return last_line(error)
  return _raised(f'{type(error).__name__}: {last_line(error)}')


def _raised(what: str) -> str:
  if what.startswith('TypeError: get_config() takes 0 positional'):
    return (
      'get_config() of this config file takes no strategy; leave out what '
      'follows .py in --config.'
    )
  return f'The config file raises {what}; --debug shows where.'


def _about_key(error: Exception, words: Sequence[str]) -> str:
  """Returns a message about a key that ml_collections reports as unknown."""
  text = str(error.args[0]) if error.args else ''
  if "'get_config'" in text:
    return NO_CONFIG
  if 'NoneType' in text:
    return NOTHING
  match = re.search(r'\w+', text)
  key = match[0] if match else ''
  paths = [w.partition('=')[0].split('.')[1:] for w in words if '.' in w]
  path = next((p for p in paths if key in p), None)
  if path is None:
    return f'The config has no such key: {last_line(error).rstrip(".")}.'
  parents = path[: path.index(key)]
  if parents:
    return _about_part(parents, key, words)
  if key in (known := defaults.get_config()):
    return (
      f'This config has no key {key!r}; begin it with '
      'gossipjax.config.defaults.get_config(), which has all.'
    )
  return f'There is no config key {key!r}{nearest(key, known)}'


def _about_part(parents: list[str], key: str, words: Sequence[str]) -> str:
  """Returns a message about a key that is missing in a part of the config."""
  part: Any = _loaded(words)
  for parent in parents:
    part = part.get(parent) if isinstance(part, ConfigDict) else None
  path = '.'.join(parents)
  if not isinstance(part, ConfigDict) or not len(part):
    return (
      f'There is no config key {path}.{key}: config.{path} has no keys. Set it '
      'in the config file, see gossipjax.config.defaults.'
    )
  if parents[0] == 'variants' and len(parents) == 2:
    return (
      f'config.{path} does not set {key!r}, and the command line changes only '
      f'what it sets: {", ".join(part)}. Set it in the config file.'
    )
  if part.get('name') and parents[-1] in ('task', 'strategy'):
    return new_part.unset_argument(path, part.name, key)
  return f'config.{path} has no key {key!r}{nearest(key, part)}'


def _loaded(words: Sequence[str]) -> Any:
  """Loads the config of --config again, without overrides."""
  first = [word for word in words if word.startswith('--config=')][:1]
  before, sys.argv = sys.argv, [sys.argv[0], *first]  # ml_collections reads it.
  try:
    fresh = flags.FlagValues()
    config_flags.DEFINE_config_file('config', flag_values=fresh)
    fresh(sys.argv)
    return fresh['config'].value
  finally:
    sys.argv = before


def of_words(
  error: Exception, words: Sequence[str], positional: int = 0
) -> str:
  """Returns a message about words that absl or ml_collections refuses.

  Args:
    error: what they raised.
    words: of the command line.
    positional: the largest number of words that are not flags.
  """
  overrides = [word for word in words if word.startswith('--config.')]
  if overrides and not any(w.startswith('--config=') for w in words):
    return (
      f'--config is missing, which {overrides[0]} changes; name a config file, '
      'such as --config=configs/quickstart.py.'
    )
  if isinstance(error, flags.UnrecognizedFlagError):
    name = f'--{error.flagname.replace("_", "-")}'
    if positional and name == '--workdir':
      return f'There is no flag {name}; workdirs are given without a flag.'
    if name == '--resume' and 'workdir' in flags.FLAGS:
      return (
        'There is no flag --resume; the same command with the same --workdir '
        'continues without one.'
      )
    close = closest(name, _own_flags())
    hint = f'did you mean {close!r}?' if close else '--help lists all.'
    return f'There is no flag {name}; {hint}'
  return last_line(error)


def _own_flags() -> list[str]:
  """Flags of this package, as they are typed."""
  modules = flags.FLAGS.flags_by_module_dict()
  names = [
    flag.name
    for module, defined in modules.items()
    if module.startswith(('gossipjax', 'ml_collections'))
    for flag in defined
  ]
  return [f'--{name.replace("_", "-")}' for name in names if '.' not in name]


# Messages about what a config file has to do.
NO_CONFIG = (
  'The config file needs a function get_config() that returns a ConfigDict, as '
  'gossipjax.config.defaults.get_config() does.'
)


NOTHING = (
  'get_config() returned nothing; end it with `return config`, a ConfigDict as '
  'that of gossipjax.config.defaults.get_config().'
)


def is_nothing(flag: Any) -> bool:
  """Whether a file was named and its get_config() has returned nothing."""
  return bool(flag.present) and flag.value is None


def about_value(error: Exception) -> str:
  """Returns a message about a value of the wrong type, or a config file."""
  match = re.match(r'flag --(.+?)=(.*?): ', str(error))
  if match is not None and match[1] == 'config':
    # The file was found, but running it failed; its traceback comes first.
    _, ours, sentence = str(error).rpartition('UserError: ')
    return sentence if ours else _raised(_last(str(error)))
  if match is None or match[1] not in flags.FLAGS:
    return last_line(error)
  config, key = flags.FLAGS['config'], match[1].removeprefix('config.')
  if 'ConfigDict' in str(error) and key != match[1]:
    part = config.value.get(key) if config.present else None
    example = 'name' if part and 'name' in part else 'KEY'
    return (
      f'--config.{key} has keys of its own; give '
      f'--config.{key}.{example}={match[2]}.'
    )
  kind = flags.FLAGS[match[1]].parser.flag_type()
  return f'--{match[1]}={match[2]} has the wrong type; it takes {kind}.'


def last_line(error: Exception) -> str:
  """The message of an error, without a config file's traceback before it."""
  return _last(str(error).strip() or type(error).__name__).rpartition(
    'UserError: '
  )[2]


def _last(text: str) -> str:
  """The last line of a text; for a field of the wrong type all lines about it,
  since its value may take several lines."""
  found = re.search(r"(\w+: )?Could not override field '.*", text, re.DOTALL)
  return ' '.join(
    (found[0] if found else text.strip().splitlines()[-1]).split()
  )
