"""Sentences about what flags, ml_collections and a config file raise."""

import re
import traceback
from typing import Any

from absl import flags


def of_file(error: Exception) -> str:
  """A sentence about what ml_collections or a config file raises."""
  *_, last = traceback.extract_tb(error.__traceback__)
  if 'ml_collections' in last.filename:
    if isinstance(error, AttributeError | KeyError):
      return _about_key(error)
    if isinstance(error, ValueError):
      return last_line(error)
  return _raised(f'{type(error).__name__}: {last_line(error)}')


def _raised(what: str) -> str:
  return f'The config file raises {what}; --debug shows where.'


def _about_key(error: Exception) -> str:
  """A sentence about an unknown key, as ml_collections reports it."""
  told = str(error.args[0]) if error.args else ''
  if "'get_config'" in told or 'NoneType' in told:
    return NO_CONFIG
  key = re.search(r'\w+', told)
  hint = re.search(r'mean "(\w+)"', told)
  return f'There is no config key {key and key[0]!r}' + (
    f'; did you mean {hint[1]!r}?'
    if hint
    else '; gossipjax/config/defaults.py lists them.'
  )


# Of what a config file has to do.
NO_CONFIG = (
  'The config file needs a function get_config() that returns a ConfigDict, as '
  'gossipjax.config.defaults.get_config() does.'
)


def is_nothing(flag: Any) -> bool:
  """Whether a file was named and its get_config() has returned nothing."""
  return bool(flag.present) and flag.value is None


def about_value(error: Exception) -> str:
  """A sentence about a value of the wrong type, or about a config file."""
  found = re.match(r'flag --(.+?)=(.*?): ', str(error))
  if found is not None and found[1] == 'config':
    # The file was found, but running it failed; its traceback comes first.
    _, ours, sentence = str(error).rpartition('UserError: ')
    last = str(error).strip().splitlines()[-1]
    return sentence if ours else _raised(last)
  if found is None or found[1] not in flags.FLAGS:
    return last_line(error)
  kind = flags.FLAGS[found[1]].parser.flag_type()
  return f'--{found[1]}={found[2]} has the wrong type; it takes {kind}.'


def last_line(error: Exception) -> str:
  """The message itself where a config file's traceback stands before it."""
  lines = str(error).strip().splitlines() or [type(error).__name__]
  return lines[-1].rpartition('UserError: ')[2]
