"""Judges how a process ended."""

import shlex
from collections.abc import Collection

from gossipjax.commands.console import DIVERGED
from gossipjax.errors import USER_ERROR_EXIT
from tests.support import program

LIMIT_S = 300  # Within which a process must end, also on a busy machine.


def of(
  ended: program.Ended | None,
  codes: Collection[int] = (0, DIVERGED, USER_ERROR_EXIT),
) -> str:
  """Returns '' if a process ended as it should, else what it did instead.

  Args:
    ended: how it ended; None if it did not.
    codes: exit codes that are allowed.
  """
  if ended is None:
    return f'no end within {LIMIT_S} s'
  if 'Traceback' in ended.err:
    return f'a traceback: {ended.err.strip().splitlines()[-1][:300]}'
  if ended.code not in codes:
    return f'exit code {ended.code}: {ended.err[-300:]}'
  if ended.code == USER_ERROR_EXIT and not _ends_with_a_message(ended.err):
    return f'no error message: {ended.err[-300:]!r}'
  return ''


def _ends_with_a_message(err: str) -> bool:
  lines = err.strip().splitlines()
  return bool(lines) and len(lines[-1]) > 10 and err.endswith('\n')


def told(finding: str, words: list[str]) -> str:
  """Formats a finding with its command line; '' if there is none."""
  return finding and f'run.py {shlex.join(words)[:600]}\n  {finding}'
