"""Makes a task from an unchanged Linen model."""

import inspect
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from flax import linen

from gossipjax.data.examples import as_examples
from gossipjax.data.sources import Source
from gossipjax.errors import UserError, as_user_error
from gossipjax.tasks.flax_models import (
  Loss,
  Scores,
  Tree,
  check,
  check_pairs,
  task_of,
)
from gossipjax.tasks.task import Task

# Arguments that switch a Linen model to training, and their values then.
_SWITCHES = {
  'train': True,
  'training': True,
  'is_training': True,
  'deterministic': False,
  'use_running_average': False,
}


def task_from_linen(
  model: linen.Module,
  loss: Loss,
  train: tuple[Any, Any] | Source,
  test: tuple[Any, Any] | Source,
  scores: Scores | None = None,
  **rest: Any,
) -> Task:
  """Makes the task that a Linen model learns.

  An argument of the model named train, training, is_training, deterministic or
  use_running_average says whether it trains. Collections besides parameters,
  such as batch statistics, become the state; dropout gets keys.

  Args:
    model: called with a batch of inputs.
    loss: (outputs, targets) -> f32[], the mean over a batch.
    train: inputs and targets, [examples, ...] each, or a source of such pairs.
    test: likewise, held out.
    scores: (outputs, targets) -> scores by name; None is the loss alone.
    **rest: further fields of `Task`.
  """
  check(model, 'task_from_linen', linen.Module, 'Net()')
  check_pairs('task_from_linen', train=train, test=test)
  known = inspect.signature(type(model).__call__).parameters
  training = {k: v for k, v in _SWITCHES.items() if k in known}
  testing = {k: not v for k, v in training.items()}

  def init(key):
    x = _one_input(train)
    return _parted(model.init({'params': key, 'dropout': key}, x, **testing))

  def forward(params, state, x, key):
    variables = {'params': params, **state}
    # Streams other than dropout use the key of 'params'.
    rngs = {'dropout': key, 'params': jax.random.fold_in(key, 1)}
    return model.apply(variables, x, rngs=rngs, mutable=[*state], **training)

  def judge(params, state, x):
    return model.apply({'params': params, **state}, x, **testing)

  stateful = _has_state(init, model, testing)
  # The state of a task without one is the empty tuple.
  kept = lambda state: state if stateful else {}
  rest.setdefault(
    'as_model', lambda params, state: {'params': params, **kept(state)}
  )
  return task_of(
    jax.jit(init), forward, judge, loss, scores, train, test, stateful, rest
  )


def _has_state(
  init: Any, model: linen.Module, testing: Mapping[str, bool]
) -> bool:
  """Whether a model keeps more than parameters."""
  with as_user_error('task_from_linen: the model'):
    try:
      return bool(jax.eval_shape(init, jax.random.key(0))[1])
    except TypeError as error:
      if _takes_inputs(model, testing):
        raise  # The fault is inside the model.
      first = str(error).strip().splitlines()[0]
      raise UserError(
        f'task_from_linen: {first.rstrip(".")}. The model is called with one '
        'positional argument, the inputs of a batch, and with none but '
        f'{", ".join(_SWITCHES)} by name. Wrap it in a module that is called '
        'so, or write a gossipjax.Task.'
      ) from error


def _takes_inputs(model: linen.Module, testing: Mapping[str, bool]) -> bool:
  try:
    inspect.signature(type(model).__call__).bind(model, None, **testing)
  except TypeError:
    return False
  return True


def _one_input(train: Any) -> Tree:
  """The inputs of the first example, a batch of one."""
  train = as_examples(train, 'train')
  if isinstance(train, Source):
    return jax.tree.map(lambda x: np.asarray(x)[None], train[0][0])
  return jax.tree.map(lambda x: np.asarray(x)[:1], train[0])


def _parted(variables: Mapping[str, Any]) -> tuple[Tree, dict[str, Tree]]:
  """Splits variables into the parameters and all other collections."""
  others = {k: v for k, v in variables.items() if k != 'params'}
  return variables.get('params', {}), others
