"""The local optimizer: any of optax, by name, with a learning-rate schedule."""

import inspect
from collections.abc import Mapping
from typing import Any

import optax

from gossipjax.config import own_functions
from gossipjax.config.arguments import call
from gossipjax.errors import UserError


def check_momentum(
  strategy: Mapping[str, Any], optimizer: Mapping[str, Any]
) -> None:
  """Checks that strategy and optimizer agree on the momentum.

  A strategy does not see the optimizer. `look_ahead` is the Nesterov momentum
  that it removes before an exchange; `own_momentum` replaces the optimizer's.

  Raises:
    UserError: they do not agree.
  """
  theirs = optimizer.get('momentum') or 0
  assumed = strategy.get('look_ahead') or 0
  if assumed and (optimizer['name'], optimizer.get('nesterov'), theirs) != (
    'sgd',
    True,
    assumed,
  ):
    raise UserError(
      f'strategy.look_ahead={assumed} needs optimizer.name=sgd, '
      f'nesterov=True and momentum={assumed}; strategy.look_ahead=0 takes '
      'any optimizer.'
    )
  if strategy.get('own_momentum') and theirs:
    raise UserError(
      f'strategy {strategy["name"]} has a momentum of its own; set '
      'optimizer.momentum=0 and optimizer.nesterov=False.'
    )


def schedule(
  learning_rate: float,
  steps: int,
  schedule: str = 'constant',
  warmup_steps: int = 0,
  boundaries: tuple[int, ...] = (),
) -> optax.Schedule:
  """Learning rate by step: a linear warm-up, then the schedule.

  Args:
    learning_rate: the highest.
    steps: of the whole run.
    schedule: constant, cosine (to zero at `steps`), piecewise (a tenth at
      each of `boundaries`, in steps), or 'module:function': a function of
      yours, (learning rate, steps after the warm-up) -> optax.Schedule.
    warmup_steps: steps until the highest rate; 0 is none.
    boundaries: steps of piecewise.

  Raises:
    UserError: there is no such schedule.
  """
  kinds = {
    'constant': lambda: optax.constant_schedule(learning_rate),
    'cosine': lambda: optax.cosine_decay_schedule(
      learning_rate, max(1, steps - warmup_steps)
    ),
    'piecewise': lambda: optax.piecewise_constant_schedule(
      learning_rate, {b - warmup_steps: 0.1 for b in boundaries}
    ),
  }
  make = own_functions.find(schedule, kinds, 'optimizer.schedule')
  own = (learning_rate, max(1, steps - warmup_steps))
  after = make(*(own if ':' in schedule else ()))
  if not warmup_steps:
    return after
  rise = optax.linear_schedule(0, learning_rate, warmup_steps)
  return optax.join_schedules([rise, after], [warmup_steps])


def rate(config: Mapping[str, Any], steps: int) -> optax.Schedule:
  """The learning rate by step of `config.optimizer`; see `schedule`."""
  known = inspect.signature(schedule).parameters
  given = {key: value for key, value in config.items() if key in known}
  return call(schedule, {'steps': steps, **given}, 'optimizer')


def make(config: Mapping[str, Any], steps: int) -> optax.GradientTransformation:
  """The optimizer of `config.optimizer`: any of optax by name, or a function.

  A name 'module:function' is a function of the user's, of a learning rate or
  schedule and of the other keys of `config.optimizer`. Weight decay is added
  to the gradient if the optimizer has none of its own.

  Raises:
    UserError: there is no such optimizer, schedule or argument.
  """
  of_rate = inspect.signature(schedule).parameters
  given = {key: value for key, value in config.items() if key not in of_rate}
  known = {
    name: f
    for name, f in vars(optax).items()
    if inspect.isfunction(f)
    and 'learning_rate' in inspect.signature(f).parameters
  }
  name = given.pop('name')
  function = own_functions.find(name, known, 'optimizer.name')
  decay = []
  if 'weight_decay' not in inspect.signature(function).parameters:
    decay = [optax.add_decayed_weights(given.pop('weight_decay', 0.0))]
  found = call(function, given, 'optimizer', rate(config, steps))
  kind = optax.GradientTransformation
  own_functions.returned(found, kind, 'optimizer.name', name)
  return optax.chain(*decay, found)
