"""What is learned: a task is a model, a loss and every worker's examples.

The keyword arguments of a task are the keys of `config.task`. Of all tasks:

  workers, mine number of shares of the examples, and which are wanted here
  model         a name in `models.IMAGES` or `models.TEXT`
  width, layers of the model; None for its own
  split         how examples are shared out, see `data.split`
  holdout       'test', or 'validation': the last of the training set (or the
                folder's valid.txt), for tuning without a look at the test set
  validation    that part of the training set, in (0, 1)
  examples      at most so many for each worker, for quick runs
  seed          of the split
  data_dir      where the files are, see `data.files`
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from gossipjax import models
from gossipjax.data import augment as augmentation
from gossipjax.data import images as pictures
from gossipjax.data import split as splits
from gossipjax.data import text as written
from gossipjax.data.holdout import hold_out
from gossipjax.errors import UserError, nearest

Tree = Any


class Task(NamedTuple):
  """Attributes:
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


def make(name: str, workers: int, **settings: Any) -> Task:
  """The task of that name.

  Args:
    name: a key of TASKS.
    workers: number of shares of the examples.
    **settings: keyword arguments of the task's function.

  Raises:
    UserError: no such task or setting, or what the task refuses.
  """
  if name not in TASKS:
    raise UserError(
      f'task.name: there is no task {name!r}{nearest(name, TASKS)}'
    )
  known = list(inspect.signature(TASKS[name]).parameters)[1:]
  for key in settings:
    if key not in known:
      raise UserError(
        f'task.{key}: there is no such setting{nearest(key, known)}'
      )
  return TASKS[name](workers, **settings)


def images(
  name: str,
  workers: int,
  *,
  model: str = 'cnn',
  width: int | None = None,
  layers: int | None = None,
  split: str = 'iid',
  alpha: float = 0.5,
  shards: int = 2,
  augment: bool = False,
  holdout: str = 'test',
  seed: int = 0,
  validation: float = 0.1,
  examples: int | None = None,
  data_dir: str | None = None,
  mine: slice = slice(None),
) -> Task:
  """Classes of pictures.

  Args:
    name: a data set of `data.images`.
    alpha: of split 'dirichlet'; the smaller, the more the workers differ.
    shards: of split 'label'; runs of one label each worker gets.
    augment: random crops and flips in training.

  Raises:
    UserError: an argument is out of range, or a file is.
  """
  data = pictures.load(name, data_dir)
  train, test = hold_out(data.train, data.test, holdout, validation)
  choices = {
    'iid': splits.iid,
    'dirichlet': functools.partial(splits.dirichlet, alpha=alpha),
    'label': functools.partial(splits.by_label, shards=shards),
  }
  rows = _named(split, choices)(train[1], workers, seed)[mine]
  net = models.make(model, data.classes, width=width, layers=layers)

  def logits(params: Tree, x: jax.Array) -> jax.Array:
    return net.apply({'params': params}, _normalise(x, data))

  def loss(params: Tree, batch: Tree, key: jax.Array) -> jax.Array:
    x, y = batch
    x = augmentation.crop_and_flip(x, key) if augment else x
    return _cross_entropy(logits(params, x), y)

  def score(params: Tree, batch: Tree) -> dict[str, jax.Array]:
    x, y = batch
    return _score(logits(params, x), y)

  init = _init(net, _normalise(train[0][:1], data))
  return Task(init, loss, score, splits.share(train, rows, examples), test)


def text(
  workers: int,
  *,
  file: str = 'tinyshakespeare',
  model: str = 'transformer',
  width: int | None = None,
  layers: int | None = None,
  heads: int | None = None,
  sequence: int = 128,
  split: str = 'iid',
  holdout: str = 'test',
  validation: float = 0.1,
  examples: int | None = None,
  seed: int = 0,
  data_dir: str | None = None,
  mine: slice = slice(None),
) -> Task:
  """The next byte of a text.

  Args:
    file: the text, see `data.text`.
    heads: of the transformer; None for its own.
    sequence: bytes a model reads at once; an example is such a window.

  Raises:
    UserError: an argument is out of range, or a file is.
  """
  data = written.load(file, data_dir)
  train, test = (
    written.windows(part, sequence) for part in (data.train, data.test)
  )
  if holdout == 'validation' and data.valid is not None:
    test = written.windows(data.valid, sequence)
  else:
    train, test = hold_out(train, test, holdout, validation)
  choices = {'iid': splits.iid, 'contiguous': splits.contiguous}
  rows = _named(split, choices)(np.arange(len(train)), workers, seed)[mine]
  net = models.make(
    model, written.BYTES, models.TEXT, width=width, layers=layers, heads=heads
  )

  def logits(params: Tree, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    rows = rows.astype(jnp.int32)
    return net.apply({'params': params}, rows[:, :-1]), rows[:, 1:]

  def loss(params: Tree, batch: Tree, key: jax.Array) -> jax.Array:
    del key  # nothing is augmented
    return _cross_entropy(*logits(params, batch))

  def score(params: Tree, batch: Tree) -> dict[str, jax.Array]:
    return _score(*logits(params, batch))

  init = _init(net, np.int32(train[:1, :-1]))
  return Task(init, loss, score, splits.share(train, rows, examples), test)


def _named(split: str, choices: Mapping[str, Callable]) -> Callable:
  if split not in choices:
    raise UserError(
      f'task.split: there is no split {split!r} for this task'
      f'{nearest(split, choices)}'
    )
  return choices[split]


def _normalise(x: jax.Array, data: pictures.Images) -> jax.Array:
  """Zero mean, unit variance: here, as bytes are a quarter of the memory."""
  mean = np.float32(data.mean).reshape(1, 1, 1, -1)
  std = np.float32(data.std).reshape(1, 1, 1, -1)
  return (x.astype(jnp.float32) / data.white - mean) / std


def _init(net: nn.Module, x: jax.Array) -> Callable[[jax.Array], Tree]:
  return jax.jit(lambda key: net.init(key, x)['params'])


def _cross_entropy(logits: jax.Array, y: jax.Array) -> jax.Array:
  return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def _score(logits: jax.Array, y: jax.Array) -> dict[str, jax.Array]:
  return {
    'loss': _cross_entropy(logits, y),
    'accuracy': (logits.argmax(-1) == y).mean(),
  }


TASKS: Mapping[str, Callable[..., Task]] = {
  'digits': functools.partial(images, 'digits', model='mlp'),
  'mnist': functools.partial(images, 'mnist'),
  'fashion_mnist': functools.partial(images, 'fashion_mnist'),
  'cifar10': functools.partial(
    images, 'cifar10', model='resnet20', augment=True
  ),
  'cifar100': functools.partial(
    images, 'cifar100', model='resnet20', augment=True
  ),
  'text': text,
}
