"""How every command ends: signals, messages and exit codes.

After a user's mistake, a command prints one sentence and exits with code 2.
After a signal, it writes a checkpoint and exits with 128 plus the signal; one
of several processes treats each signal as SIGTERM.
"""

import os
import pathlib
import re
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from absl import flags, logging

from gossipjax.commands import file_errors, streams
from gossipjax.distributed import gpus, processes, stopping
from gossipjax.errors import USER_ERROR_EXIT, UserError
from gossipjax.training.ledger import Diverged
from gossipjax.training.loop import Interrupted

_ASKS = re.compile(r'--?debug(=(true|t|yes|y|1))?', re.IGNORECASE)
_DEBUG = flags.DEFINE_bool('debug', False, 'Show the traceback of an error.')

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DIVERGED = 1  # Exit code of a run whose loss is NaN or Inf.

Main = Callable[[list[str], Any], None]  # (argv, signals) -> None.


class Signals:
  """Remembers a SIGINT, SIGTERM or SIGHUP until the current step is done.

  A second signal of the same kind ends the process at once.
  """

  def __init__(self):
    self.received = None
    _handle(self._receive)

  def _receive(self, number, frame):
    del frame
    self.received = number
    signal.signal(number, signal.SIG_DFL)
    if sys.stderr.isatty():  # In a log, the line at the end is enough.
      say('Stopping after this step; a second signal stops at once.')

  def __call__(self) -> bool:
    return self.received is not None


def say(sentence: str) -> None:
  """Prints one line on stderr, without control characters of the terminal."""
  line = ' '.join(sentence.split())
  line = ''.join(c if c.isprintable() else '?' for c in line)
  streams.print_line(line)


def guarded(main: Main, again: str | None) -> Callable[[list[str]], None]:
  """Wraps `main`: a mistake, a full disk or a signal ends it with one sentence.

  Args:
    main: takes the words that are not flags, and a callable that says whether
      a signal asked to stop.
    again: the flag or command that continues a stopped run. None if nothing can
      continue it: a signal then ends the process at once, after its open files
      are closed, and the second argument of `main` is None.
  """

  def run(argv):
    # Orbax logs everything that it does, also the errors that it raises.
    logging.set_verbosity(logging.ERROR if _DEBUG.value else logging.FATAL)
    sys.unraisablehook = _unless_too_late
    try:
      signals = _signals(again)
      main(argv, signals)
      sys.stdout.flush()
    except Interrupted as stop:
      if processes.is_first():
        where = f'after step {stop.step}, checkpoint kept'
        where = where if stop.step else 'between two trainings'
        say(f'Stopped {where}; {_named(again)} continues.')
      sys.exit(128 + signals.received)
    except UserError as error:
      refuse(str(error), error)
    except Diverged as error:
      refuse(str(error), error, DIVERGED)
    except OSError as error:
      if isinstance(error, BrokenPipeError) and streams.nobody_reads():
        sys.exit(128 + signal.SIGPIPE)
      if not file_errors.explanation(error):
        processes.abandon(error)
        raise
      refuse(_about_files(error, again), error)
    except Exception as error:
      _explain(error)
      processes.abandon(error)
      raise

  return run


def workdir(name: str) -> pathlib.Path:
  """The folder of --workdir, or a new one, named if the command is stopped."""
  flag = flags.FLAGS['workdir']
  flag.value = flag.value or f'runs/{name}-{time.strftime("%Y%m%d-%H%M%S")}'
  return pathlib.Path(flag.value).expanduser()


def _named(again: str | None) -> str | None:
  """How to continue a run, with its folder if the user has not named one."""
  if not again or 'workdir' not in flags.FLAGS:
    return again
  flag = flags.FLAGS['workdir']
  if flag.present or not flag.value:
    return again
  folder = shlex.quote(f'--workdir={flag.value}')
  return f'{again}{"" if again[0] == "-" else " with"} {folder}'


def _about_files(error: OSError, again: str | None) -> str:
  """A message about a file system error, which may lack the file's path."""
  values = flags.FLAGS.flag_values_dict()
  workdir = values.get('workdir', 'the output') or '--workdir'
  remedy = f'{_named(again)} continues' if again else 'run the command again'
  return (
    f'{error.filename or workdir}: {file_errors.explanation(error, remedy)}'
  )


def _explain(error: Exception) -> None:
  """Ends with a message if memory ran out, or a GPU caused the error."""
  if isinstance(error, MemoryError) or 'RESOURCE_EXHAUSTED' in str(error):
    refuse(
      'There is not enough memory; a smaller model, fewer workers or a '
      f'smaller batch needs less ({_short(error)}).',
      error,
    )
  if sentence := gpus.of_error(error):
    refuse(sentence, error)


def _short(error: Exception) -> str:
  return ' '.join(str(error).split())[:200] or type(error).__name__


def _signals(again: str | None) -> Any:
  if processes.join():
    _handle(stopping.terminate, (signal.SIGINT, signal.SIGHUP))
    return stopping.Stop()
  if again:
    return Signals()
  _handle(_end)
  return None


def _handle(
  handler: Callable[[int, Any], None], numbers: Sequence[int] = _SIGNALS
) -> None:
  for number in numbers:
    if signal.getsignal(number) is not signal.SIG_IGN:  # As by nohup.
      signal.signal(number, handler)


def _end(number: int, frame: Any) -> None:
  del frame
  sys.exit(128 + number)


def _default_signals() -> None:
  """Restores the system's signal handlers in a forked process: when a library
  ends it by a signal, it must not close the files of its parent."""
  for number in _SIGNALS:
    if signal.getsignal(number) is _end:
      signal.signal(number, signal.SIG_DFL)


os.register_at_fork(after_in_child=_default_signals)


def _unless_too_late(error, show=sys.unraisablehook):
  # When one write of a checkpoint fails, later ones find a closed event loop.
  if str(error.exc_value) != 'Event loop is closed':
    show(error)


def refuse(
  sentence: str, error: Exception, code: int = USER_ERROR_EXIT
) -> NoReturn:
  """Ends the process with a message, and a traceback if --debug is given."""
  if any(_ASKS.fullmatch(word) for word in sys.argv):  # Flags may be wrong.
    traceback.print_exception(error)
  say(sentence)
  processes.leave(code)
