"""Flags and config overrides of every command, and its help."""

import functools
import pathlib
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from absl import app, flags, logging
from ml_collections import ConfigDict

from gossipjax import executors
from gossipjax.commands import (
  console,
  flag_errors,
  new_optimizer,
  new_part,
  streams,
)
from gossipjax.commands.words import check_used, joined
from gossipjax.distributed import gpus
from gossipjax.errors import UserError
from gossipjax.training.run import devices

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
    doc: what the command does; the help begins with it.
    define_flags: defines the flags of the command.
    main: see `console.guarded`.
    words: flags and config overrides.
    again: see `console.guarded`.
    shared: modules whose flags the help shows too.
    positional: the largest number of words that are not flags.
  """
  streams.prepare()
  logging.set_verbosity(logging.ERROR)  # Our message replaces its warning.
  words = joined(words)
  sys.argv = [sys.argv[0], *joined(sys.argv[1:])]  # ml_collections looks there.
  try:
    define_flags()  # ml_collections opens --flagfile here.
  except flags.Error as error:
    console.refuse(flag_errors.last_line(error), error)
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
  """Yields the help of each flag: its name, its meaning and its default."""
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
    positional: the largest number of words that are not flags.

  Returns:
    The program's name and the words that are not flags.

  Raises:
    SystemExit: with 2, after a message about what is wrong.
  """
  words = argv
  argv, of_optimizer = new_optimizer.take(argv)
  argv, of_parts = new_part.take(argv)
  sys.argv = new_part.take(new_optimizer.take(sys.argv)[0])[0]
  try:
    rest = flags.FLAGS([_FLAG_NAME.sub(_with_underscores, w) for w in argv])
    if 'config' in flags.FLAGS and (loaded := flags.FLAGS['config'].value):
      follow = not any('look_ahead=' in word for word in words)
      new_optimizer.put(loaded, of_optimizer, follow)
      new_part.put(loaded, of_parts)
      if isinstance(loaded, ConfigDict):
        check_used(words, loaded)
    if 'workdir' in flags.FLAGS and flags.FLAGS.workdir == '':
      raise UserError(  # As with a variable of the shell that is not set.
        '--workdir= is empty; name a folder, or leave it out.'
      )
    if extra := rest[1 + positional :]:
      raise UserError(
        f'{extra[0]!r} is not a flag; flags look like --key=value.'
      )
    return rest
  except UserError as error:
    console.refuse(str(error), error)
  except flags.IllegalFlagValueError as error:
    console.refuse(flag_errors.about_value(error), error)
  except (flags.Error, OSError, SyntaxError) as error:
    console.refuse(flag_errors.of_words(error, words, positional), error)
  except Exception as error:  # Whatever a config file raises.
    console.refuse(flag_errors.of_file(error, words), error)


_FLAG_NAME = re.compile(r'^--[a-z-]+(?==|$)')


def _with_underscores(name: re.Match[str]) -> str:
  return '--' + name[0][2:].replace('-', '_')


def rerun_command(words: Sequence[str]) -> str:
  """Returns the command that repeats a run in another folder.

  It has the words of the run's command line that name or change the config. For
  several processes it also names a new folder, which they need; it is '' if
  the words do not say how many processes there are.
  """
  words = joined(words)
  kept = [word for word in words if word.startswith('--config')]
  is_script = sys.argv[0].endswith('run.py')
  program = shlex.quote(sys.argv[0]) if is_script else '-m gossipjax run'
  if '--distributed' in words:
    count, folder = (_value(f, words) for f in ('num_processes', 'workdir'))
    if not count:  # The cluster's own launcher knows.
      return ''
    program = f'-m gossipjax launch --processes={count} --'
    kept.append(f'--workdir={folder.rstrip("/")}-more')
  return f'python {program} {shlex.join(kept)}'


def _value(flag: str, words: Sequence[str]) -> str:
  """The value that the last word about a flag gives it; '' if there is none."""
  pairs = zip(words, [*words[1:], ''], strict=True)
  values = [
    value if equals else following
    for word, following in pairs
    for name, equals, value in [word.partition('=')]
    if name in (f'--{flag}', f'-{flag}')
  ]
  return values[-1] if values else ''


def config() -> tuple[ConfigDict, str]:
  """Returns the config that --config has loaded, and the name of its file.

  Raises:
    UserError: the flag is missing, or names no file.
  """
  flag: Any = flags.FLAGS['config']  # Knows the name of its file.
  files = sorted(map(str, pathlib.Path('configs').glob('[!_]*.py')))
  if flag.value is None:
    raise UserError(
      flag_errors.NOTHING
      if flag_errors.is_nothing(flag)
      else '--config is missing; start with --config=configs/quickstart.py.'
      if files
      else '--config is missing; name a Python file with get_config(), of '
      'which `python -m gossipjax run --help` shows an example.'
    )
  source = pathlib.Path(flag.config_filename.partition(':')[0])
  if not source.is_file():
    hint = f'; there are {", ".join(files)}' if files else ''
    raise UserError(f'--config={source}: there is no such file{hint}.')
  return flag.value, source.stem


def prepare_devices(configs: Iterable[ConfigDict]) -> None:
  """Emulates the devices that configs need on a CPU, and names unused GPUs."""
  executors.emulate(devices(configs))
  name_unused_gpus()


def name_unused_gpus() -> None:
  """Says why JAX takes the CPU, if this machine has GPUs."""
  if why := gpus.unused():
    console.say(f'{why} Training goes on with the CPU.')
