"""What a task is, and what the built-in tasks share."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import optax
from flax import linen as nn

from gossipjax.errors import UserError, nearest

Tree = Any


class Task(NamedTuple):
  """A model, a loss and the examples of every worker.

  Attributes:
    init: key -> parameters.
    loss: (parameters, batch, key) -> f32[], the mean training loss of a batch;
      the key drives augmentation only.
    score: (parameters, batch) -> {'loss', 'accuracy'}, each f32[], the means
      over a batch; of text: nats per byte, and the share of next bytes right.
    train: arrays [workers, examples, ...], a row for each worker wanted.
    test: arrays [examples, ...]; held out.
  """

  init: Callable[[jax.Array], Tree]
  loss: Callable[[Tree, Tree, jax.Array], jax.Array]
  score: Callable[[Tree, Tree], dict[str, jax.Array]]
  train: Tree
  test: Tree


def split_function(split: str, choices: Mapping[str, Callable]) -> Callable:
  """The way to share out examples that has this name.

  Raises:
    UserError: there is none.
  """
  if split not in choices:
    raise UserError(
      f'task.split: there is no split {split!r} for this task'
      f'{nearest(split, choices)}'
    )
  return choices[split]


def initialiser(net: nn.Module, x: jax.Array) -> Callable[[jax.Array], Tree]:
  """key -> the parameters of a network whose input is like x[1, ...]."""
  return jax.jit(lambda key: net.init(key, x)['params'])


def cross_entropy(logits: jax.Array, y: jax.Array) -> jax.Array:
  """Mean cross entropy, f32[]: logits f32[..., classes], labels int[...]."""
  return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def classification_scores(
  logits: jax.Array, y: jax.Array
) -> dict[str, jax.Array]:
  """Mean cross entropy and share of correct labels, f32[] each."""
  return {
    'loss': cross_entropy(logits, y),
    'accuracy': (logits.argmax(-1) == y).mean(),
  }
