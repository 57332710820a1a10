"""What the tasks from Linen models and from NNX models share."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from gossipjax.errors import UserError
from gossipjax.tasks.metrics import Score
from gossipjax.tasks.task import Task

Tree = Any
Loss = Callable[[Any, Any], jax.Array]  # (outputs, targets) -> f32[].
Scores = Callable[[Any, Any], Mapping[str, Score]]


def check(given: Any, where: str, kind: type, hint: str) -> None:
  """Raises a UserError if a model is of another kind."""
  if not isinstance(given, kind):
    sort = 'the class' if isinstance(given, type) else 'an object of type'
    name = getattr(given, '__name__', type(given).__name__)
    raise UserError(f'{where}: the model is {sort} {name}; give {hint}.')


def check_pairs(where: str, **parts: Any) -> None:
  """Raises a UserError for examples that are no pair of inputs and targets."""
  for what, given in parts.items():
    is_tree = isinstance(given, tuple | list | Mapping)
    if is_tree and (isinstance(given, Mapping) or len(given) != 2):
      raise UserError(
        f'{where}: {what} has to be a pair (inputs, targets) of arrays with an '
        'axis of examples, or a source of such pairs; put a mask or weights '
        'into the inputs or the targets, as in (x, (y, weights)).'
      )


def task_of(init, forward, judge, loss, scores, train, test, stateful, rest):
  """Makes the task of a model: (parameters, state, inputs) -> outputs.

  Args:
    init: key -> (parameters, state).
    forward: (parameters, state, inputs, key) -> (outputs, state), in training.
    judge: (parameters, state, inputs) -> outputs, in evaluation.
    loss, scores, train, test: see `task_from_linen`.
    stateful: whether there is a state.
    rest: further fields of `Task`.
  """

  def stateful_loss(params, state, batch, key):
    outputs, after = forward(params, state, batch[0], key)
    return loss(outputs, batch[1]), after

  def score(params, state, batch):
    outputs = judge(params, state, batch[0])
    if scores is None:
      return {'loss': loss(outputs, batch[1])}
    return dict(scores(outputs, batch[1]))

  if stateful:
    return Task(init, stateful_loss, score, train, test, True, **rest)
  return Task(
    lambda key: init(key)[0],
    lambda params, batch, key: stateful_loss(params, {}, batch, key)[0],
    lambda params, batch: score(params, {}, batch),
    train,
    test,
    **rest,
  )
