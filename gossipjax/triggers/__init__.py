"""When a model, or a layer of it, has changed enough to be worth a message.

The functions in `TRIGGERS` are what `strategy.trigger` of a config can say.
"""

import inspect
from typing import Any

from gossipjax.errors import UserError, nearest
from gossipjax.triggers.controls import fixed, random
from gossipjax.triggers.drift import relative_drift, target_interval
from gossipjax.triggers.published import norm_slope, step_size
from gossipjax.triggers.trigger import Trigger, bounded, of_first

__all__ = [
  'TRIGGERS',
  'Trigger',
  'bounded',
  'fixed',
  'named',
  'norm_slope',
  'of_first',
  'random',
  'relative_drift',
  'step_size',
  'target_interval',
]
TRIGGERS = {
  f.__name__: f
  for f in (
    relative_drift,
    target_interval,
    norm_slope,
    step_size,
    fixed,
    random,
  )
}


def named(name: str, **options: Any) -> Trigger:
  """The trigger of that name; options that are None keep their defaults."""
  if name not in TRIGGERS:
    raise UserError(f'trigger={name} is unknown{nearest(name, TRIGGERS)}')
  known = inspect.signature(TRIGGERS[name]).parameters
  given = {key: value for key, value in options.items() if value is not None}
  for key in given:
    if key not in known:
      raise UserError(f'trigger={name} takes no {key}{nearest(key, known)}')
  for key, parameter in known.items():
    if parameter.default is parameter.empty and key not in given:
      raise UserError(f'trigger={name} needs {key}.')
  return TRIGGERS[name](**given)
