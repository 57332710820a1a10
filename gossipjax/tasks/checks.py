"""Checks of a task before training: shapes of its loss, state and scores."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax.data.examples import Shares
from gossipjax.data.sources import Source
from gossipjax.errors import UserError, nearest
from gossipjax.tasks.metrics import Total, WholeSet
from gossipjax.tasks.task import Task, Tree
from gossipjax.tasks.user_functions import as_task_error


def check(task: Task, batch_size: int) -> None:
  """Traces the functions of a task with distributed examples, without data.

  Raises:
    UserError: a function raises an exception, parameters are not floating
      point, the loss is not a scalar, the state changes its form, or scores are
      not a dict of numbers, the same for any number of examples; or folders of
      images for training and testing have different classes.
  """
  _check_classes(task)
  params, state = _begin(task)
  batch = batch_shapes(task.train, 2, batch_size)
  with as_task_error('task.loss'):
    _, after = jax.eval_shape(_returned(task), params, state, batch, _key())
  if _forms(after) != _forms(state):
    raise UserError(
      'task.loss has to return a state of the shapes and dtypes of that of '
      f'task.init, {_text(state)}; it returns {_text(after)}.'
    )
  _check_scores(task, params, state)


def _check_classes(task: Task) -> None:
  train = task.train.source if isinstance(task.train, Shares) else task.train
  names = [getattr(source, 'classes', None) for source in (train, task.test)]
  if None not in names and names[0] != names[1]:
    only = sorted({*names[0]} ^ {*names[1]})
    raise UserError(
      'task.train and task.test number the subfolders of their images, which '
      f'have to be the same; only one of them has {", ".join(only)}.'
    )


def scores_of(task: Task) -> dict[str, Any]:
  """The scores of a task by name, as shapes."""
  return _scores(task, *_begin(task), 1)


def _begin(task: Task) -> tuple[Tree, Tree]:
  """Shapes of the parameters and of the state to start from."""
  with as_task_error('task.init'):
    result = jax.eval_shape(task.init, _key())
  if task.stateful and not (isinstance(result, tuple) and len(result) == 2):
    raise UserError(
      'task.init of a stateful task must return (parameters, state).'
    )
  params, state = result if task.stateful else (result, ())
  leaves = jax.tree.leaves(params)
  floats = lambda x: jnp.issubdtype(x.dtype, jnp.floating)
  odd = [x for x in leaves if not floats(x) or not x.size]
  if odd or not leaves:
    raise UserError(
      f'task.init returns {_text(odd)} as parameters; they have to be arrays '
      'of floating point that are not empty. Others belong in the state.'
    )
  return params, state


def _key() -> jax.ShapeDtypeStruct:
  return jax.eval_shape(lambda: jax.random.key(0))


def _returned(task: Task) -> Any:
  """(parameters, state, batch, key) -> (loss, state), checked."""

  def loss(params, state, batch, key):
    if not task.stateful:
      result = task.loss(params, batch, key), state
    else:
      result = task.loss(params, state, batch, key)
    if not isinstance(result, tuple) or len(result) != 2:
      raise UserError(
        'task.loss of a stateful task must return (loss, state), not '
        f'{_text(result)}.'
      )
    _check_loss(result[0])
    return result

  return loss


def batch_shapes(examples: Tree, axis: int, size: int) -> Tree:
  """Shapes of a batch; `size` replaces the axes of arrays before `axis`."""
  if isinstance(examples, Shares | Source):
    source = examples.source if isinstance(examples, Shares) else examples
    examples, axis = jax.tree.map(np.asarray, source[0]), 0
  for x in jax.tree.leaves(examples):
    if not jnp.issubdtype(x.dtype, jnp.number) and x.dtype != bool:
      raise UserError(
        f'task: examples are arrays of numbers, not of {x.dtype}.'
      )
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(
      (size, *x.shape[axis:]), jax.dtypes.canonicalize_dtype(x.dtype)
    ),
    examples,
  )


def _check_loss(loss: Any) -> None:
  is_scalar = isinstance(loss, jax.Array) and not loss.shape
  if not is_scalar or not jnp.issubdtype(loss.dtype, jnp.floating):
    prefix = 'a tuple of ' if isinstance(loss, tuple) else ''
    raise UserError(
      f'task.loss returns {prefix}{_text(loss)}; it has to be a scalar of '
      'floating point, such as the mean over the batch.'
    )


def _check_scores(task: Task, params: Tree, state: Tree) -> None:
  """Checks that two examples give the same scores as one, each a number."""
  one, two = (_scores(task, params, state, size) for size in (1, 2))
  if not isinstance(one, dict) or not one:
    raise UserError(
      f'task.score returns {_text(one)}; it has to be a dict of scores by name.'
    )
  for name in dict.fromkeys([*one, *two]):
    if not str(name).isidentifier():
      raise UserError(
        f'task.score: {name!r} cannot name a column; use letters, digits and '
        '_, and begin with a letter or _.'
      )
    kinds = [_kind(name, scores, size) for size, scores in ((1, one), (2, two))]
    if kinds[0] != kinds[1]:
      raise UserError(
        f'task.score: {name!r} is {kinds[0]} for one example and {kinds[1]} '
        'for two; its type must not depend on the size of a batch.'
      )
  if isinstance(task.higher_is_better, str):
    raise UserError(
      f'task.higher_is_better is {task.higher_is_better!r}; it has to be a '
      f'tuple of names, as ({task.higher_is_better!r},).'
    )
  for name in task.higher_is_better:
    if name not in one:
      raise UserError(
        f'task.higher_is_better: there is no score {name!r}{nearest(name, one)}'
      )


def _scores(task: Task, params: Tree, state: Tree, size: int) -> Any:
  """The scores of `size` examples, as shapes."""
  batch = batch_shapes(task.test, 1, size)
  with as_task_error('task.score'):
    return jax.eval_shape(task.scores, params, state, batch)


def _kind(name: str, scores: dict[str, Any], size: int) -> str:
  if name not in scores:
    return 'missing'
  score = scores[name]
  if isinstance(score, WholeSet):
    for x in score.arrays:
      if x.shape[:1] != (size,):
        raise UserError(
          f'task.score: {name!r} is made of {_text(x)} for {size} examples; '
          'whole_set takes arrays [examples, ...].'
        )
    return f'a function of {len(score.arrays)} arrays'
  value = score.value if isinstance(score, Total) else score
  is_number = getattr(value, 'shape', None) == ()
  if not is_number or jnp.issubdtype(value.dtype, jnp.complexfloating):
    raise UserError(
      f'task.score: {name!r} is {_text(value)}; it has to be a number, such as '
      'the mean over the batch.'
    )
  reduction = 'sum' if isinstance(score, Total) else 'mean'
  return f'a {reduction} of type {value.dtype}'


def _forms(tree: Tree) -> Any:
  leaves, form = jax.tree.flatten(tree)
  return form, [(x.shape, x.dtype) for x in leaves]


def _text(tree: Tree) -> str:
  """Shapes and types for a sentence: 'float32[3]'."""
  leaves = jax.tree.leaves(tree)
  texts = [
    f'{x.dtype}{list(x.shape)}' if hasattr(x, 'shape') else type(x).__name__
    for x in leaves[:4]
  ]
  return ', '.join(texts) + (', ...' if len(leaves) > 4 else '') or 'nothing'
