"""Turns exceptions of a task's functions into UserErrors with a remedy."""

import contextlib
import re
from collections.abc import Iterator

from flax.errors import InvalidRngError

from gossipjax.errors import UserError, as_user_error


@contextlib.contextmanager
def as_task_error(what: str) -> Iterator[None]:
  """Turns an exception of a task's function into a UserError that names it.

  Args:
    what: 'task.init', 'task.loss' or 'task.score'.

  Raises:
    UserError: the function raised an exception.
  """
  with as_user_error(what):
    try:
      yield
    except NameError as error:
      if not (match := re.search(r'unbound axis name: (\w+)', str(error))):
        raise
      raise UserError(
        f'{what} averages over the axis {match[1]!r}, and there is none: a '
        'worker computes the loss of its own batch alone. Build the model '
        'without axis_name, as BatchNorm(axis_name=None); '
        'config.state_period=1 averages the batch statistics of all workers '
        'at every step.'
      ) from error
    except InvalidRngError as error:
      if what != 'task.score':
        raise
      line = re.sub(r' \(http.*', '', str(error).strip().splitlines()[0])
      raise UserError(
        f'{what}: {line.rstrip(".")}: in evaluation a model gets no random '
        'numbers. What switches its dropout off has to be an argument of its '
        '__call__, such as train or deterministic, not a field of the model.'
      ) from error
