"""Checks that each record of a run exists once, and that they are in order."""

import pathlib
from typing import Any

import numpy as np

from gossipjax.errors import UserError

_REMEDY = '--resume restores them from a checkpoint, if one is left.'


def check(
  path: pathlib.Path, steps: np.ndarray, config: dict[str, Any]
) -> None:
  """Checks the steps of a file's records.

  Args:
    path: of the file, for the error message.
    steps: i64[records], of its lines.
    config: of the run; says which steps have a record.

  Raises:
    UserError: a line is missing, doubled or out of order; names the line.
  """
  # In virtual time a run may end while no worker takes a step, even before the
  # first one. Then there may be further records of the last step: one with its
  # scores, if it had none, and one of the end.
  for _ in range(2 if config.get('cluster') else 0):
    stalled = len(steps) > 1 and steps[-1] == steps[-2]
    steps = steps[:-1] if stalled else steps
  later = np.diff(steps, prepend=-1 if config.get('cluster') else 0) > 0
  if not later.all():
    line = int(np.argmin(later))
    raise UserError(
      f'{path}, line {line + 1} is of step {steps[line]}, after one of step '
      f'{steps[line - 1] if line else 0}: lines were doubled or swapped; '
      f'{_REMEDY}'
    )
  expected = _steps(config, int(steps[-1]))
  # Virtual time may end between two due records; the end has a record, too.
  for line, (found, step) in enumerate(zip(steps, expected, strict=False), 1):
    if found > step or (found < step and line < len(steps)):
      raise UserError(
        f'{path}, line {line} is of step {found} instead of {step}: a line is '
        f'missing or altered; {_REMEDY}'
      )


def check_end(
  path: pathlib.Path, steps: np.ndarray, summary: dict[str, Any] | None
) -> None:
  """Checks that the records of a finished run reach its end.

  Args:
    path: as that of `check`.
    steps: i64[records], of its lines; a run that diverged may have none.
    summary: of the run; None while it is training.

  Raises:
    UserError: the records do not end at the last step of the run.
  """
  if not len(steps):
    if summary and not summary.get('diverged'):
      raise UserError(f'{path} holds no record, but its run ended; {_REMEDY}')
    return
  if summary and steps[-1] != (end := summary.get('steps', steps[-1])):
    raise UserError(
      f'{path} ends at line {len(steps)}, step {steps[-1]}, but the run ended '
      f'at step {end}: lines are missing; {_REMEDY}'
    )


def _steps(config: dict[str, Any], last: int) -> np.ndarray:
  """The steps that must have a record, up to the first one after `last`."""
  if not {'log_every', 'eval_every', 'steps'} <= config.keys():
    return np.array([], np.int64)
  end, log, test = (config[key] for key in ('steps', 'log_every', 'eval_every'))
  steps = np.arange(1, min(end, last + log) + 1)
  due = (steps % log == 0) | (steps == end)
  if test:
    due |= steps % test == 0
  return steps[due]
