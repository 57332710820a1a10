"""Flags and config overrides of every command, and its help."""

import functools
import pathlib
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import app, flags
from ml_collections import ConfigDict

from gossipjax.commands import console, new_optimizer, new_part
from gossipjax.errors import UserError

_HELP = {'-h', '-help', '--help', '--helpshort', '--helpfull'}


def start(
  doc: str | None,
  define_flags: Callable[[], None],
  main: console.Main,
  words: Sequence[str],
  again: str | None = None,
  shared: Sequence[str] = (),
  positional: int = 0,
) -> None:
  """Parses a command's flags and runs it, or prints its help.

  Args:
    doc: what the command does, the beginning of its help.
    define_flags: defines the flags of the command.
    main: see `console.guarded`.
    words: flags and config overrides.
    again: see `console.guarded`.
    shared: modules whose flags the help shows too.
    positional: how many words may be no flags.
  """
  try:
    define_flags()  # ml_collections opens --flagfile here.
  except flags.Error as error:
    console.refuse(_last_line(error), error)
  if _HELP & {*words}:
    modules = ['ml_collections', main.__module__, *shared, console.__name__]
    print('\n'.join([(doc or '').strip(), '', *_flag_lines(modules)]))
    return
  app.run(
    console.guarded(main, again),
    argv=[sys.argv[0], *words],
    flags_parser=functools.partial(parse, positional=positional),
  )


def _flag_lines(modules: Sequence[str]) -> Iterator[str]:
  """The help of each flag: its name, what it is, its default."""
  defined = flags.FLAGS.flags_by_module_dict()
  for name in modules:
    # DEFINE_config_file gives its flag to a module of ml_collections.
    for module in [m for m in defined if f'{m}.'.startswith(f'{name}.')]:
      for flag in defined[module]:
        default = f' (default: {flag.default})' if flag.default else ''
        yield f'  --{flag.name}: {" ".join(flag.help.split())}{default}'


def parse(argv: list[str], positional: int = 0) -> list[str]:
  """Parses flags and config overrides; a mistake ends the process.

  Args:
    argv: the program's name, flags (with hyphens or underscores) and config
      overrides.
    positional: how many words may be no flags.

  Returns:
    The program's name and the words that are no flags.

  Raises:
    SystemExit: with 2, after a sentence about what is wrong.
  """
  argv, of_optimizer = new_optimizer.take(argv)
  argv, of_parts = new_part.take(argv)
  # ml_collections looks there too.
  sys.argv = new_part.take(new_optimizer.take(sys.argv)[0])[0]
  try:
    rest = flags.FLAGS([_FLAG_NAME.sub(_with_underscores, w) for w in argv])
    if (of_optimizer or of_parts) and (given := flags.FLAGS['config'].value):
      new_optimizer.put(given, of_optimizer)
      new_part.put(given, of_parts)
    if extra := rest[1 + positional :]:
      raise UserError(
        f'{extra[0]!r} is not a flag; flags look like --key=value.'
      )
    return rest
  except UserError as error:
    console.refuse(str(error), error)
  except flags.IllegalFlagValueError as error:
    console.refuse(_about_value(error), error)
  except (flags.Error, OSError, SyntaxError) as error:
    console.refuse(_last_line(error), error)
  except Exception as error:  # Whatever a config file raises.
    console.refuse(_of_file(error), error)


_FLAG_NAME = re.compile(r'^--[a-z-]+(?==|$)')


def _with_underscores(name: re.Match[str]) -> str:
  return '--' + name[0][2:].replace('-', '_')


def _of_file(error: Exception) -> str:
  """A sentence about what ml_collections or a config file raises."""
  *_, last = traceback.extract_tb(error.__traceback__)
  if 'ml_collections' in last.filename:
    if isinstance(error, AttributeError | KeyError):
      return _about_key(error)
    if isinstance(error, ValueError):
      return _last_line(error)
  return _raised(f'{type(error).__name__}: {_last_line(error)}')


def _raised(what: str) -> str:
  return f'The config file raises {what}; --debug shows where.'


def _about_key(error: Exception) -> str:
  """A sentence about an unknown key, as ml_collections reports it."""
  told = str(error.args[0]) if error.args else ''
  key = re.search(r'\w+', told)
  hint = re.search(r'mean "(\w+)"', told)
  return f'There is no config key {key and key[0]!r}' + (
    f'; did you mean {hint[1]!r}?'
    if hint
    else '; gossipjax/config/defaults.py lists them.'
  )


def _about_value(error: Exception) -> str:
  """A sentence about a value of the wrong type, or about a config file."""
  found = re.match(r'flag --(.+?)=(.*?): ', str(error))
  if found is not None and found[1] == 'config':
    # The file was found, but running it failed; its traceback comes first.
    _, ours, sentence = str(error).rpartition('UserError: ')
    last = str(error).strip().splitlines()[-1]
    return sentence if ours else _raised(last)
  if found is None or found[1] not in flags.FLAGS:
    return _last_line(error)
  kind = flags.FLAGS[found[1]].parser.flag_type()
  return f'--{found[1]}={found[2]} has the wrong type; it takes {kind}.'


def _last_line(error: Exception) -> str:
  """The message itself where a config file's traceback stands before it."""
  lines = str(error).strip().splitlines() or [type(error).__name__]
  return lines[-1].rpartition('UserError: ')[2]


def again(words: Sequence[str]) -> str:
  """The command that repeats a run elsewhere, by the words of its command line:
  its config, and what changes it; '' of several processes, if the words do not
  say how many."""
  takes = lambda word: word.startswith('--config') and '=' not in word
  kept = [
    word
    for before, word in zip(['', *words], words, strict=False)
    if word.startswith(('--config', '--noconfig.'))
    or (takes(before) and not word.startswith('--'))
  ]
  alone = sys.argv[0].endswith('run.py')
  program = sys.argv[0] if alone else '-m gossipjax run'
  if '--distributed' in words:
    many = [w[6:] for w in words if w.startswith('--num_processes=')]
    if not many:  # The cluster's own launcher knows.
      return ''
    program = f'-m gossipjax launch --{many[0]} --'
  return f'python {program} {shlex.join(kept)}'


def config() -> tuple[ConfigDict, str]:
  """Returns the config that --config has loaded, and the name of its file.

  Raises:
    UserError: the flag is missing, or names no file.
  """
  flag: Any = flags.FLAGS['config']  # Knows the name of its file.
  known = sorted(map(str, pathlib.Path('configs').glob('[!_]*.py')))
  if flag.value is None:
    raise UserError(
      '--config is missing; start with --config=configs/quickstart.py.'
      if known
      else '--config is missing; name a Python file with get_config(), of '
      'which `python -m gossipjax run --help` shows an example.'
    )
  source = pathlib.Path(flag.config_filename.partition(':')[0])
  if not source.is_file():
    there_are = f'; there are {", ".join(known)}' if known else ''
    raise UserError(f'--config={source}: there is no such file{there_are}.')
  return flag.value, source.stem
