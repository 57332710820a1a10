"""Checks that scores are numbers, and means or sums over examples."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax.aggregator import Tree
from gossipjax.data.examples import take_rows
from gossipjax.errors import UserError
from gossipjax.tasks import metrics
from gossipjax.tasks.data_checks import suspects_text
from gossipjax.tasks.task import Task, count
from gossipjax.training.evaluate import held_out_scorer
from gossipjax.training.run import Run

# Pairs; relative rounding error; share of pairs that may exceed that error.
_PAIRS, _ROUNDING, _FEW = 32, 5e-3, 1 / 8


def check(run: Run) -> None:
  """Checks the scores of the initial parameters.

  Raises:
    UserError: a score is NaN, or is neither a mean nor a sum over examples.
  """
  params, state = run.task.begin(jax.random.key(run.seed))
  scores = held_out_scorer(run.task, run.workers, run.executor)(params, state)
  for name, value in scores.items():
    if math.isnan(value):
      raise UserError(
        f'task.score: {name!r} is NaN for the initial parameters; a score must '
        f'be a number for any model. {_remedy(run.task.test)}'
      )
  _check_means(run.task, params, state)


def _remedy(test: Tree) -> str:
  suspects = suspects_text(test)
  if not suspects:
    return 'task.test holds no NaN or Inf: look at the score itself.'
  return f'Look for {suspects} in task.test.'


def _check_means(task: Task, params: Tree, state: Tree) -> None:
  """Checks that scores of two examples are the means, or sums, of each."""
  pairs = min(_PAIRS, count(task.test, 'test') // 2)
  rows = np.arange(2 * pairs).reshape(pairs, 2)

  @jax.jit
  @jax.vmap
  def of_pair(pair):
    score_one = lambda x: task.scores(params, state, jax.tree.map(_batch, x))
    return task.scores(params, state, pair), jax.vmap(score_one)(pair)

  if not pairs:
    return
  together, alone = jax.device_get(of_pair(take_rows(task.test, rows)))
  for name, score in together.items():
    if isinstance(score, metrics.WholeSet):
      continue
    summed = isinstance(score, metrics.Total)
    pair = [jax.tree.leaves(x[name])[0] for x in (together, alone)]
    actual, single = (np.asarray(x, float) for x in pair)
    expected = single.sum(axis=1) if summed else single.mean(axis=1)
    size = np.abs(single).mean()
    # Rounding may decide a label differently in one pair, but not in many.
    error = max(_ROUNDING, _rounding(pair[0].dtype))
    if np.mean(np.abs(actual - expected) > error * size) > _FEW:
      raise UserError(
        f'task.score: {name!r} of two examples is not the '
        f'{"sum" if summed else "mean"} of its values for each of them, so it '
        'cannot be computed batch by batch; use gossipjax.total for a sum, and '
        'whole_set(function, *arrays) for a score that needs all examples, '
        'such as F1, a root or a weighted mean. A score must not depend on '
        'random numbers that its model draws in evaluation.'
      )


def _rounding(dtype: Any) -> float:
  """The relative error of a few roundings to a dtype; 0 for integers."""
  is_float = jnp.issubdtype(dtype, jnp.floating)
  return 4 * float(jnp.finfo(dtype).eps) if is_float else 0.0


def _batch(x: jax.Array) -> jax.Array:
  """A batch of one example."""
  return x[None]
