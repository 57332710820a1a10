"""Words of a command line, with every override of the config as one word."""

from collections.abc import Iterator, Sequence


def joined(words: Sequence[str]) -> list[str]:
  """`--config.KEY VALUE`, `--config.KEY`, `--noconfig.KEY` and one hyphen as
  `--config.KEY=VALUE`, which takes True for a bare key and False after `no`.

  Args:
    words: without the program's name. Those after `--` stay as they are.
  """
  return list(_joined(iter(words)))


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
