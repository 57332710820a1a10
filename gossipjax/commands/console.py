"""How programs end: a sentence for a mistake, a checkpoint for a signal."""

import errno
import pathlib
import re
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from absl import flags, logging
from ml_collections import ConfigDict

from gossipjax.distributed import processes
from gossipjax.errors import UserError
from gossipjax.training.train import Interrupted

_DEBUG = flags.DEFINE_bool('debug', False, 'Show the traceback of an error.')

MISTAKE = 2  # Exit code of a refusal.


class Signals:
  """Remembers a SIGINT or SIGTERM until a step is done; a second one kills."""

  def __init__(self):
    self.received = None
    for number in (signal.SIGINT, signal.SIGTERM):
      signal.signal(number, self._receive)

  def _receive(self, number, frame):
    del frame
    self.received = number
    signal.signal(number, signal.SIG_DFL)
    if sys.stderr.isatty():  # A log wants the one line at the end.
      say('Stopping after this step; once more stops at once.')

  def __call__(self) -> bool:
    return self.received is not None


def say(sentence: str) -> None:
  """One line on stderr."""
  print(' '.join(sentence.split()), file=sys.stderr, flush=True)


def parse(argv: list[str]) -> list[str]:
  """Flags and config overrides, or exit code 2 and a sentence.

  A flag's name may be written with hyphens.
  """
  try:
    rest = flags.FLAGS(
      [
        re.sub(
          r'^--[a-z-]+(?==|$)',
          lambda name: '--' + name[0][2:].replace('-', '_'),
          word,
        )
        for word in argv
      ]
    )
    if len(rest) > 1:
      raise UserError(f'{rest[1]!r} is no flag; flags look like --key=value.')
    return rest
  # How ml_collections names an unknown key, and an unknown key's child.
  except (AttributeError, KeyError) as error:
    key = re.search(r'\w+', str(error.args[0])).group()
    hint = re.search(r'mean "(\w+)"', str(error.args[0]))
    return _refuse(
      f'There is no config key {key!r}'
      + (
        f'; did you mean {hint.group(1)!r}?'
        if hint
        else '; gossipjax/config/defaults.py lists them.'
      ),
      error,
    )
  except flags.IllegalFlagValueError as error:
    flag, value = re.match(r'flag --(.+?)=(.*?): ', str(error)).groups()
    if flag == 'config':  # The file was found; what it does went wrong.
      return _refuse(_last(error), error)
    kind = flags.FLAGS[flag].parser.flag_type()
    return _refuse(
      f'--{flag}={value} has the wrong type; it takes {kind}.', error
    )
  except (flags.Error, UserError, OSError, SyntaxError, ValueError) as error:
    return _refuse(_last(error), error)


def _last(error: Exception) -> str:
  """What counts where the traceback of a config file is in the message."""
  return str(error).strip().splitlines()[-1].rpartition('UserError: ')[2]


def config() -> tuple[ConfigDict, str]:
  """What --config has loaded, and the name of its file.

  Raises:
    UserError: it is missing, or no file.
  """
  flag = flags.FLAGS['config']
  if flag.value is None:
    raise UserError(
      '--config is missing; start with --config=configs/quickstart.py.'
    )
  source = pathlib.Path(flag.config_filename.partition(':')[0])
  if not source.is_file():
    known = sorted(map(str, pathlib.Path('configs').glob('[!_]*.py')))
    raise UserError(
      f'--config={source}: there is no such file; there are {", ".join(known)}.'
    )
  return flag.value, source.stem


def guarded(
  main: Callable[[list[str]], None], again: str | None = '--resume'
) -> Callable[[list[str]], Any]:
  """`main`, without tracebacks for what a user can mend.

  Args:
    main: (argv, signals) -> None.
    again: what continues it after it was stopped; None if nothing does, then
      signals end it at once and `signals` is None.
  """

  def run(argv):
    # Orbax tells all it does, and logs the errors that it raises.
    logging.set_verbosity(logging.ERROR if _DEBUG.value else logging.FATAL)
    sys.unraisablehook = _unless_too_late
    try:
      signals = _signals(again)
      main(argv, signals)
    except Interrupted as stop:
      if processes.first():
        say(
          f'Stopped after step {stop.step}, checkpoint kept; {again} continues.'
        )
      sys.exit(128 + signals.received)
    except UserError as error:
      _refuse(str(error), error)
    except OSError as error:
      if error.errno not in _MENDABLE:
        processes.abandon(error)
        raise
      where = error.filename or '--workdir'
      _refuse(f'{where}: {_MENDABLE[error.errno]}', error)
    except Exception as error:
      processes.abandon(error)
      raise

  return run


def _signals(again: str | None) -> Any:
  if processes.join():
    return processes.Stop()
  if again:
    return Signals()
  signal.signal(signal.SIGINT, signal.SIG_DFL)
  return None


def _unless_too_late(error, show=sys.unraisablehook):
  # When one write of a checkpoint fails, the others tell a loop that is gone.
  if str(error.exc_value) != 'Event loop is closed':
    show(error)


_MENDABLE = {
  errno.ENOSPC: 'the disk is full; make room, then --resume continues.',
  errno.EDQUOT: 'the disk quota is used up; make room, then --resume '
  'continues.',
  errno.EFBIG: 'a file would grow larger than ulimit -f allows; raise it, '
  'then --resume continues.',
  errno.EACCES: 'no permission; choose another --workdir or data.dir.',
  errno.EROFS: 'the disk is read-only; choose another --workdir.',
}


def _refuse(sentence: str, error: Exception):
  if {'--debug', '--debug=true'} & {*sys.argv}:
    traceback.print_exception(error)
  say(sentence)
  processes.leave(MISTAKE)
