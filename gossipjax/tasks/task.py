"""What a task is, and what the built-in tasks share."""

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from gossipjax.data.sources import Source
from gossipjax.errors import UserError

Tree = Any


class Task(NamedTuple):
  """A model, a loss and examples; it knows nothing of workers.

  Attributes:
    init: key -> parameters; of a stateful task (parameters, state).
    loss: (parameters, batch, key) -> f32[], the mean training loss of a batch;
      the key differs by worker and step, for augmentation or dropout. Of a
      stateful task (parameters, state, batch, key) -> (f32[], state).
    score: (parameters, batch) -> scores by name, such as {'loss', 'accuracy'},
      each f32[], a mean over the batch; other scores use `metrics.total` or
      `whole_set`. Of a stateful task (parameters, state, batch) -> scores.
    train: arrays [examples, ...], or an object with `__len__` and
      `__getitem__`, see `data.sources.Source`. In a `Run` they are distributed
      over workers: arrays [workers, examples, ...], a row for each worker asked
      for, or `data.examples.Shares`.
    test: arrays [examples, ...], or a source; held out.
    stateful: whether the model keeps a state besides its parameters, such as
      the statistics of a batch norm. Each worker has its own; for evaluation
      of the mean model they are averaged.
    validation: as `test`, held out for tuning; None takes a part of `train`.
    labels: int[examples] of `train`, for splits that need them; None takes the
      last array of `train` if it is one.
    higher_is_better: names of scores of which large values are good; those
      with 'accuracy' in their names need not be listed.
    as_model: (parameters, state) -> what `gossipjax.trained` returns; None
      returns what `init` does.
  """

  init: Callable[..., Any]
  loss: Callable[..., Any]
  score: Callable[..., Mapping[str, jax.Array]]
  train: Tree
  test: Tree
  stateful: bool = False
  validation: Tree = None
  labels: np.ndarray | None = None
  higher_is_better: tuple[str, ...] = ()
  as_model: Callable[[Tree, Tree], Any] | None = None

  def begin(self, key: jax.Array) -> tuple[Tree, Tree]:
    """Parameters and state to start from; without a state it is ()."""
    return self.init(key) if self.stateful else (self.init(key), ())

  def training_loss(
    self, params: Tree, state: Tree, batch: Tree, key: jax.Array
  ) -> tuple[jax.Array, Tree]:
    """The mean loss of a batch, f32[], and the state after it."""
    if self.stateful:
      return self.loss(params, state, batch, key)
    return self.loss(params, batch, key), state

  def scores(
    self, params: Tree, state: Tree, batch: Tree
  ) -> Mapping[str, jax.Array]:
    """The scores of a batch."""
    model = (params, state) if self.stateful else (params,)
    return self.score(*model, batch)


def count(examples: Tree, what: str) -> int:
  """The number of examples of a source, or of arrays [examples, ...].

  Raises:
    UserError: there is none, or arrays have different numbers; the message
      says `what` they are.
  """
  if isinstance(examples, Source):
    if (size := len(examples)) < 1:
      raise UserError(f'task: the source of {what} has no examples.')
    return size
  leaves = jax.tree.leaves(examples)
  sizes = sorted({len(x) if np.ndim(x) else 0 for x in leaves})
  if len(sizes) != 1 or not sizes[0]:
    found = ' and '.join(map(str, sizes)) or 'no'
    raise UserError(
      f'task: the arrays of {what} have {found} examples; each needs the same '
      'number on its first axis, at least 1.'
    )
  return sizes[0]


def initialiser(net: nn.Module, x: jax.Array) -> Callable[[jax.Array], Tree]:
  """key -> the parameters of a network whose input is like x[1, ...]."""
  return functools.partial(_parameters, net, x)


@functools.partial(jax.jit, static_argnums=0)
def _parameters(net: nn.Module, x: jax.Array, key: jax.Array) -> Tree:
  """Initialises parameters; compiled once for all runs of a network."""
  return net.init(key, x)['params']


def cross_entropy(
  logits: jax.Array, y: jax.Array, smoothing: float = 0.0
) -> jax.Array:
  """Mean cross entropy, f32[]: logits f32[..., classes], labels int[...].

  Args:
    logits: of each example.
    y: its label.
    smoothing: share of the target that is spread over all classes.
  """
  logits = logits.astype(jnp.float32)
  if not smoothing:
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
  target = optax.smooth_labels(jax.nn.one_hot(y, logits.shape[-1]), smoothing)
  return optax.softmax_cross_entropy(logits, target).mean()


def classification_scores(
  logits: jax.Array, y: jax.Array
) -> dict[str, jax.Array]:
  """Mean cross entropy and share of correct labels, f32[] each."""
  return {
    'loss': cross_entropy(logits, y),
    'accuracy': (logits.argmax(-1) == y).mean(),
  }


def is_higher(name: str, names: Collection[str] = ()) -> bool:
  """Whether large values of a score are good.

  Args:
    name: of the score, or of its column in records, such as test_f1.
    names: `Task.higher_is_better`; accuracies need not be among them.
  """
  score = name.removeprefix('test_').removeprefix('worker0_')
  return 'accuracy' in score or score in names
