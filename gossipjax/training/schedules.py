"""Learning rates by step: every schedule of optax, by name."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from gossipjax.config import own_functions
from gossipjax.config.arguments import call
from gossipjax.errors import UserError, as_user_error


def _known() -> dict[str, Callable[..., optax.Schedule]]:
  """The public schedules of optax by name, some also by a short name."""
  return {
    'constant': optax.constant_schedule,
    'cosine': optax.cosine_decay_schedule,
    'piecewise': optax.piecewise_constant_schedule,
  } | {
    name: function
    for name, function in inspect.getmembers(
      optax.schedules, inspect.isfunction
    )
    if name.endswith(('_schedule', '_decay')) and not name.startswith('_')
  }


def make(
  chosen: str | Mapping[str, Any],
  learning_rate: float,
  steps: int,
  boundaries: tuple[int, ...] = (),
) -> optax.Schedule:
  """A schedule by name.

  Args:
    chosen: constant, cosine (to zero at `steps`) or piecewise (a tenth at each
      of `boundaries`); a schedule of optax; 'module:function', which is called
      as (learning rate, steps); or a dict of such a `name` and arguments.
    learning_rate: the highest; optax's `init_value`, `peak_value` or `value`.
    steps: how many; optax's `decay_steps` or `transition_steps`.
    boundaries: steps of piecewise.

  Raises:
    UserError: there is no such schedule, an argument is missing or unknown, or
      the user's own is no function of the step that JAX can trace.
  """
  kwargs: dict[str, Any] = (
    {'name': chosen} if isinstance(chosen, str) else dict(chosen)
  )
  name = kwargs.pop('name', 'constant')
  maker = own_functions.find(name, _known(), 'optimizer.schedule')
  if ':' in name:
    own = call(maker, kwargs, 'optimizer.schedule', learning_rate, steps)
    _check_own(f'optimizer.schedule={name}', own)
    return own
  known = inspect.signature(maker).parameters
  for keys, value in (
    (('peak_value', 'init_value', 'value'), learning_rate),
    (('decay_steps', 'transition_steps'), steps),
  ):
    if key := next((key for key in keys if key in known), None):
      kwargs.setdefault(key, value)
  if 'peak_value' in known and 'init_value' in known:
    kwargs.setdefault('init_value', 0.0)
  if 'boundaries_and_scales' in known and 'boundaries_and_scales' not in kwargs:
    kwargs['boundaries_and_scales'] = dict.fromkeys(boundaries, 0.1)
  return call(maker, kwargs, 'optimizer.schedule')


def _check_own(whose: str, made: Any) -> None:
  """Traces a user's schedule, which would otherwise fail in the optimizer."""
  if not callable(made):
    raise UserError(
      f'{whose} returns {type(made).__name__}; it has to return a function of '
      'the step.'
    )
  with as_user_error(f'{whose} of a step'):
    rate = jax.eval_shape(made, jax.ShapeDtypeStruct((), jnp.int32))
  if getattr(rate, 'shape', None) != ():
    raise UserError(
      f'{whose} returns no single number for a step; it has to return a '
      'learning rate.'
    )


def check_boundaries(
  chosen: str | Mapping[str, Any], boundaries: tuple[int, ...]
) -> None:
  """Checks that a schedule takes boundaries, if there are any.

  Raises:
    UserError: it does not.
  """
  kwargs = {'name': chosen} if isinstance(chosen, str) else dict(chosen)
  name = kwargs.get('name', 'constant')
  maker = _known().get(name)
  takes_boundaries = (
    maker and 'boundaries_and_scales' in inspect.signature(maker).parameters
  )
  if boundaries and not takes_boundaries:
    raise UserError(
      f'optimizer.boundaries={tuple(boundaries)} are not used by '
      f'optimizer.schedule={name}; leave them out, or set '
      'optimizer.schedule=piecewise.'
    )
