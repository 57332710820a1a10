"""Checks of a task before training: shapes of its loss, state and scores."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax.data.sources import Shares, Source
from gossipjax.errors import UserError
from gossipjax.tasks.metrics import Total, WholeSet
from gossipjax.tasks.task import Task

Tree = Any


def check(task: Task, batch_size: int) -> None:
  """Traces the functions of a task that is shared out; computes nothing.

  Raises:
    UserError: the loss is no scalar, the state changes its form, or scores are
      no numbers by name, the same for any number of examples.
  """
  try:
    params, state = jax.eval_shape(task.begin, _key())
  except (TypeError, ValueError) as error:
    if not task.stateful or 'unpack' not in str(error):
      raise
    raise UserError(
      'task.init: of a stateful task it returns (parameters, state).'
    ) from error
  batch = batch_shapes(task.train, 2, batch_size)
  found = jax.eval_shape(_returned_loss(task), params, state, batch, _key())
  if task.stateful and not (isinstance(found, tuple) and len(found) == 2):
    raise UserError(
      'task.loss: of a stateful task it returns (loss, state), not '
      f'{_told(found)}.'
    )
  loss, after = found if task.stateful else (found, state)
  _check_loss(loss)
  if _forms(after) != _forms(state):
    raise UserError(
      'task.loss returns a state of another form than task.init: '
      f'{_told(after)} after {_told(state)}.'
    )
  _check_scores(task, params, state)


def scores_of(task: Task) -> dict[str, Any]:
  """The scores of a checked task by name, as shapes."""
  params, state = jax.eval_shape(task.begin, _key())
  batch = batch_shapes(task.test, 1, 1)
  return dict(jax.eval_shape(task.scores, params, state, batch))


def _key() -> jax.ShapeDtypeStruct:
  return jax.eval_shape(lambda: jax.random.key(0))


def _returned_loss(task: Task):
  if task.stateful:
    return task.loss
  return lambda params, state, batch, key: task.loss(params, batch, key)


def batch_shapes(examples: Tree, axis: int, size: int) -> Tree:
  """Shapes of a batch of examples, of arrays those before `axis`."""
  if isinstance(examples, Shares | Source):
    source = examples.source if isinstance(examples, Shares) else examples
    examples, axis = jax.tree.map(np.asarray, source[0]), 0
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(
      (size, *x.shape[axis:]), jax.dtypes.canonicalize_dtype(x.dtype)
    ),
    examples,
  )


def _check_loss(loss: Any) -> None:
  shape, dtype = getattr(loss, 'shape', None), getattr(loss, 'dtype', None)
  if shape != () or not jnp.issubdtype(dtype, jnp.floating):
    raise UserError(
      f'task.loss returns {_told(loss)}; it has to be a scalar of floating '
      'point, such as the mean over the batch.'
    )


def _check_scores(task: Task, params: Tree, state: Tree) -> None:
  """The same scores for one example as for two, each a number."""
  one, two = (
    jax.eval_shape(task.scores, params, state, batch_shapes(task.test, 1, size))
    for size in (1, 2)
  )
  if not isinstance(one, dict) or not one:
    raise UserError(f'task.score returns {_told(one)}; scores by name are due.')
  for name in dict.fromkeys([*one, *two]):
    if not str(name).isidentifier():
      raise UserError(
        f'task.score: {name!r} names columns and files; letters, digits and _ '
        'are allowed.'
      )
    kinds = [_kind(name, found) for found in (one, two)]
    if kinds[0] != kinds[1]:
      raise UserError(
        f'task.score: {name!r} is {kinds[0]} of one example and {kinds[1]} of '
        'two; a score is the same for any number.'
      )


def _kind(name: str, scores: dict[str, Any]) -> str:
  if name not in scores:
    return 'missing'
  score = scores[name]
  if isinstance(score, WholeSet):
    return f'a function of {len(score.arrays)} arrays'
  value = score.value if isinstance(score, Total) else score
  if getattr(value, 'shape', None) != ():
    raise UserError(
      f'task.score: {name!r} is {_told(value)}; it has to be a number, such as '
      'the mean over the batch.'
    )
  sort = 'sum' if isinstance(score, Total) else 'mean'
  return f'a {sort} of type {value.dtype}'


def _forms(tree: Tree) -> Any:
  leaves, form = jax.tree.flatten(tree)
  return form, [(x.shape, x.dtype) for x in leaves]


def _told(tree: Tree) -> str:
  """Shapes and types for a sentence: 'float32[3]'."""
  leaves = jax.tree.leaves(tree)
  told = [
    f'{x.dtype}{list(x.shape)}' if hasattr(x, 'shape') else type(x).__name__
    for x in leaves[:4]
  ]
  return ', '.join(told) + (', ...' if len(leaves) > 4 else '') or 'nothing'
