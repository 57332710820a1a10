"""Classification of images."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import models
from gossipjax.data import augment as augmentation
from gossipjax.data import images as image_sets
from gossipjax.data import whitening
from gossipjax.tasks.task import (
  Task,
  classification_scores,
  cross_entropy,
  initialiser,
)

Tree = Any


def images(
  name: str,
  *,
  model: str = 'cnn',
  width: int | None = None,
  layers: int | None = None,
  augment: bool = False,
  whiten: bool = False,
  smoothing: float = 0.0,
  data_dir: str | None = None,
) -> Task:
  """Makes the task to classify images.

  Args:
    name: a data set of `data.images`.
    augment: random crops and flips in training.
    whiten: whether the network reads whitened patches, see `data.whitening`.
    smoothing: share of a training label that is spread over all classes.

  Raises:
    UserError: an argument is out of range, or a file is.
  """
  data = image_sets.load(name, data_dir)
  net = models.make(model, data.classes, width=width, layers=layers)

  prepare = _preparation(data, whiten)

  def logits(params: Tree, x: jax.Array) -> jax.Array:
    # In the type of the parameters, see `config.compute_dtype`.
    x = prepare(x).astype(jax.tree.leaves(params)[0].dtype)
    found: Any = net.apply({'params': params}, x)
    return found

  def loss(params: Tree, batch: Tree, key: jax.Array) -> jax.Array:
    x, y = batch
    x = augmentation.crop_and_flip(x, key) if augment else x
    return cross_entropy(logits(params, x), y, smoothing)

  def score(params: Tree, batch: Tree) -> dict[str, jax.Array]:
    x, y = batch
    return classification_scores(logits(params, x), y)

  init = initialiser(net, prepare(data.train[0][:1]))
  return Task(init, loss, score, data.train, data.test)


def _preparation(
  data: image_sets.Images, whiten: bool
) -> Callable[[jax.Array | np.ndarray], jax.Array]:
  """Makes the function that prepares images for the network."""
  if not whiten:
    return lambda x: _normalise(x, data)
  sample = data.train[0][: whitening.SAMPLE]
  filters = whitening.filters(np.asarray(_normalise(sample, data)))
  return lambda x: whitening.whiten(_normalise(x, data), filters)


def _normalise(x: jax.Array | np.ndarray, data: image_sets.Images) -> jax.Array:
  """Zero mean, unit variance; images are kept as bytes to save memory."""
  mean = np.array(data.mean, np.float32).reshape(1, 1, 1, -1)
  std = np.array(data.std, np.float32).reshape(1, 1, 1, -1)
  scaled: Any = x.astype(jnp.float32) / data.white
  return (scaled - mean) / std
