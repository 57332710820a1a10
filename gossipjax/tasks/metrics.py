"""Scores that are not means: sums over examples, functions of all examples."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax.errors import as_user_error

Tree = Any


class Total(NamedTuple):
  """A sum over the examples of a batch, f32[]; batches are added up."""

  value: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class WholeSet:
  """A score of all held-out examples together.

  Attributes:
    arrays: of a batch, [examples, ...] each.
    function: (NumPy arrays of all examples) -> the score, on the host.
  """

  arrays: tuple[jax.Array, ...]
  function: Callable[..., float] = dataclasses.field(metadata={'static': True})


Score = jax.Array | Total | WholeSet


def total(value: jax.Array) -> Total:
  """A score that is a sum over examples, for `Task.score`.

  Args:
    value: f32[], the sum over the examples of the batch.
  """
  return Total(value)


def whole_set(function: Callable[..., float], *arrays: jax.Array) -> WholeSet:
  """A score that needs all examples at once, such as F1, for `Task.score`.

  Args:
    function: (NumPy arrays of all held-out examples) -> a number.
    *arrays: of the batch, [examples, ...] each.
  """
  return WholeSet(arrays, function)


def weighed(each: Mapping[str, Score], weight: jax.Array) -> dict[str, Any]:
  """Reduces a worker's scores of single examples.

  Args:
    each: scores of batches of one example, leaves [examples, ...].
    weight: f32[examples], 0 for an example that is padding, else 1.

  Returns:
    Sums, f32[]; of a `WholeSet` its arrays, [examples, ...].
  """

  def reduced(score):
    if isinstance(score, WholeSet):
      join = lambda x: x.reshape(-1, *x.shape[2:])
      return jax.tree.map(join, score)
    return jax.tree.map(lambda x: jnp.vdot(x, weight), score)

  return {name: reduced(score) for name, score in each.items()}


def joined(parts: Sequence[Mapping[str, Any]], count: int) -> dict[str, float]:
  """Returns the scores of all examples.

  Args:
    parts: for each call, the results of `weighed` of all workers, leaves
      [workers, ...], in the order of the examples.
    count: how many examples there are.
  """
  scores = {}
  for name, first in parts[0].items():
    each = [jax.tree.leaves(part[name]) for part in parts]
    if isinstance(first, WholeSet):
      joins = (
        np.concatenate([x.reshape(-1, *x.shape[2:]) for x in calls])[:count]
        for calls in zip(*each, strict=True)
      )
      with as_user_error(f'task.score: the function of {name!r}'):
        scores[name] = float(first.function(*joins))
      continue
    sums = np.stack([leaves[0] for leaves in each], axis=1)
    divisor = 1 if isinstance(first, Total) else count
    scores[name] = float(sums.sum(dtype=np.float64) / divisor)
  return scores
