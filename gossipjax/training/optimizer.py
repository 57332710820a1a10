"""The local optimizer, any of optax by name, with a learning-rate schedule."""

import contextlib
import functools
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gossipjax.config import optimizers, own_functions
from gossipjax.config.arguments import call
from gossipjax.errors import UserError, as_user_error, nearest
from gossipjax.training import schedules


def schedule(
  learning_rate: float,
  steps: int,
  schedule: Any = 'constant',
  warmup_steps: int = 0,
  boundaries: tuple[int, ...] = (),
  schedule_steps: int = 0,
) -> optax.Schedule:
  """Learning rate by step: a linear warm-up, then the schedule.

  Args:
    learning_rate: the highest.
    steps: of the whole run.
    schedule: see `schedules.make`; its steps begin after the warm-up.
    warmup_steps: steps until the highest rate; 0 is none.
    boundaries: steps of piecewise.
    schedule_steps: steps of the run that the schedule is meant for; it is
      stretched to `steps`. 0: this run.

  Raises:
    UserError: there is no such schedule.
  """
  total = schedule_steps or steps
  schedules.check_boundaries(schedule, boundaries)
  main = schedules.make(
    schedule,
    learning_rate,
    max(1, total - warmup_steps),
    tuple(b - warmup_steps for b in boundaries),
  )
  full = main
  if warmup_steps:
    warmup = optax.linear_schedule(0, learning_rate, warmup_steps)
    full = optax.join_schedules([warmup, main], [warmup_steps])
  if total == steps:
    return full
  # In integers, and in a table since step x total may not fit 32 bits.
  table = (np.arange(steps + 1) * total // steps).astype(np.int32)
  return lambda step: full(jnp.asarray(table)[jnp.asarray(step)])


def rate(config: Mapping[str, Any], steps: int) -> optax.Schedule:
  """The learning rate by step of `config.optimizer`; see `schedule`."""
  known = inspect.signature(schedule).parameters
  kwargs = {key: value for key, value in config.items() if key in known}
  return call(schedule, {'steps': steps, **kwargs}, 'optimizer')


def unreached(config: Mapping[str, Any], steps: int) -> str:
  """Says which parts of a schedule lie beyond a run's end; '' if none do.

  That is no error, since trials may be so short.
  """
  steps = config.get('schedule_steps') or steps
  late = [
    f'config.optimizer.{key}={config[key]}'
    for key in ('warmup_steps', 'boundaries')
    if np.max(config.get(key) or 0) >= steps
  ]
  return f'The {steps} steps end before {" and ".join(late)}.' if late else ''


# Optimizers whose learning rate has to be a number, not a schedule.
CONSTANT = ('optimistic_adam', 'rprop', 'sm3')


def make(
  config: Mapping[str, Any], steps: int, seed: int = 0
) -> optax.GradientTransformation:
  """The optimizer of `config.optimizer`: any of optax by name, or a function.

  A name 'module:function' is a function of the user's, which takes the learning
  rate as a schedule, and the other keys of `config.optimizer`. Weight decay is
  added to the gradient if the optimizer has none of its own.

  Args:
    config: `config.optimizer`.
    steps: of the whole run.
    seed: of the run; added to the optimizer's own, if it draws numbers.

  Raises:
    UserError: there is no such optimizer, schedule or argument, or it needs
      more than gradients and parameters.
  """
  of_rate = inspect.signature(schedule).parameters
  kwargs = {key: value for key, value in config.items() if key not in of_rate}
  make_one = optimizers.function(name := kwargs.pop('name'))
  found_rate = rate(config, steps)
  if name in CONSTANT:
    if config.get('schedule', 'constant') != 'constant' or config.get(
      'warmup_steps'
    ):
      raise UserError(f'optimizer.name={name} takes a constant rate only.')
    found_rate = config['learning_rate']
  decay, known = [], inspect.signature(make_one).parameters
  if 'weight_decay' not in known:
    decay = [optax.add_decayed_weights(kwargs.pop('weight_decay', 0.0))]
  if ':' in name:
    transform = call(make_one, kwargs, 'optimizer', found_rate, seed=seed)
  else:
    _check_known(name, kwargs, [*known])
    own_key = kwargs.get('key') or 0  # Of optax, whose `seed` is deprecated.
    if 'key' in known and 'seed' not in kwargs and isinstance(own_key, int):
      kwargs['key'], seed = own_key + seed, 0
    # By name, since not all take it first or annotate it as a schedule.
    make_one = functools.partial(make_one, learning_rate=found_rate)
    transform = call(make_one, kwargs, 'optimizer', seed=seed)
  kind = optax.GradientTransformation
  own_functions.returned(transform, kind, 'optimizer.name', name)
  if ':' not in name:
    _check_arguments(f'optimizer.name={name}', transform)
  return optax.chain(*decay, transform)


def _check_known(name: str, given: Iterable[str], known: list[str]) -> None:
  """Refuses keys that an optimizer does not take, mostly those of another."""
  for key in given:
    if key not in known:
      raise UserError(
        f'optimizer.{key} is unknown to {name}{nearest(key, known)} In a '
        'config file, config.optimizer = defaults.optimizer('
        f'{name!r}, learning_rate=...) leaves no key of another optimizer.'
      )


def eval_params(opt: optax.OptState, params: Any, axes: int = 0) -> Any:
  """The parameters to evaluate: for schedule-free optimizers, their average.

  Defazio et al., The road less scheduled, 2024. arXiv:2405.15682

  Args:
    opt: the optimizer's state.
    params: the parameters in training.
    axes: number of leading axes of both, such as one of workers.
  """
  kind = optax.contrib.ScheduleFreeState
  states = jax.tree.leaves(opt, is_leaf=lambda x: isinstance(x, kind))
  free = [state for state in states if isinstance(state, kind)]
  if not free:
    return params
  average = optax.contrib.schedule_free_eval_params
  for _ in range(axes):
    average = jax.vmap(average)
  return average(free[0], params)


def _check_arguments(whose: str, tx: optax.GradientTransformation) -> None:
  """Refuses optimizers that need the loss, such as line searches."""
  params = {'x': jnp.zeros((2, 2))}
  with as_optimizer_error(whose):
    jax.eval_shape(lambda p: tx.update(p, tx.init(p), p), params)


_NEEDS_MORE = re.compile('required keyword-only argument|must be provided')


@contextlib.contextmanager
def as_optimizer_error(whose: str) -> Iterator[None]:
  """Turns exceptions of an optimizer into a UserError about it."""
  with as_user_error(whose):
    try:
      yield
    except (TypeError, ValueError) as error:
      if not _NEEDS_MORE.search(str(error)):
        raise
      raise UserError(
        f'{whose} needs more than gradients and parameters '
        f'({error}); choose another.'
      ) from error
