"""Reads measured compute times from a file: `config.cluster.trace`."""

import pathlib

import numpy as np

from gossipjax.config import ranges
from gossipjax.errors import UserError


def read_trace(name: str, steps: int, workers: int) -> np.ndarray:
  """Reads the compute seconds of a trace file, f64[lines, 1 or workers].

  Raises:
    UserError: the file is missing, has fewer lines than `steps`, or a line
      without one number of seconds for all workers or one for each.
  """
  path = pathlib.Path(name).expanduser()
  if not path.is_file():
    raise UserError(
      f'cluster.trace={name!r} is not a file; compute=trace needs one '
      'with a line of seconds per step.'
    )
  try:
    lines = path.read_text('utf-8').replace(',', ' ').splitlines()
    if not ''.join(lines).strip():
      raise ValueError('the file is empty')
    seconds = np.loadtxt(lines, ndmin=2)
  except (OSError, ValueError) as error:
    raise UserError(
      f'{path}: each line has to contain numbers of seconds: {error}.'
    ) from error
  if seconds.shape[1] not in (1, workers):
    raise UserError(
      f'{path} has {seconds.shape[1]} columns; it takes 1, or one '
      f'for each of {workers} workers.'
    )
  most = ranges.SECONDS.most
  if not ((seconds <= most) & (seconds >= 0)).all():
    raise UserError(f'{path} has times that are not from 0 to {most:g} s.')
  if len(seconds) < steps:
    raise UserError(
      f'{path} has {len(seconds)} lines; steps={steps} needs at least {steps}.'
    )
  return seconds
