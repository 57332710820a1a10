"""What is wrong with how a process ended."""

import shlex
from collections.abc import Collection

from gossipjax.commands.console import DIVERGED
from gossipjax.errors import USER_ERROR_EXIT
from tests.support import program

LIMIT_S = 300  # Of one process, on a busy machine.


def of(
  ended: program.Ended | None,
  codes: Collection[int] = (0, DIVERGED, USER_ERROR_EXIT),
) -> str:
  """'' if a process ended as promised, else what it did instead.

  Args:
    ended: how it ended; None if it did not.
    codes: exit codes that are promised.
  """
  if ended is None:
    return f'no end within {LIMIT_S} s'
  if 'Traceback' in ended.err:
    return f'a traceback: {ended.err.strip().splitlines()[-1][:300]}'
  if ended.code not in codes:
    return f'exit code {ended.code}: {ended.err[-300:]}'
  if ended.code == USER_ERROR_EXIT and not _is_a_sentence(ended.err):
    return f'no sentence: {ended.err[-300:]!r}'
  return ''


def _is_a_sentence(err: str) -> bool:
  lines = err.strip().splitlines()
  return bool(lines) and len(lines[-1]) > 10 and err.endswith('\n')


def told(what: str, words: list[str]) -> str:
  """A finding with its command line; '' if nothing was found."""
  return what and f'run.py {shlex.join(words)[:600]}\n  {what}'
