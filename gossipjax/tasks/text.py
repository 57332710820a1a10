"""Prediction of the next byte of a text."""

from typing import Any

import jax
import jax.numpy as jnp

from gossipjax import models
from gossipjax.data import text as written
from gossipjax.tasks.task import (
  Task,
  classification_scores,
  cross_entropy,
  initialiser,
)

Tree = Any


def text(
  *,
  file: str = 'tinyshakespeare',
  model: str = 'transformer',
  width: int | None = None,
  layers: int | None = None,
  heads: int | None = None,
  sequence: int = 128,
  data_dir: str | None = None,
) -> Task:
  """Makes the task to predict the next byte of a text.

  Args:
    file: the text, see `data.text`.
    heads: of the transformer; None for its own.
    sequence: bytes a model reads at once; an example is such a window.

  Raises:
    UserError: an argument is out of range, or a file is.
  """
  data = written.load(file, data_dir)
  train, valid, test = (
    None if part is None else written.windows(part, sequence) for part in data
  )
  net = models.make(
    model, written.BYTES, models.TEXT, width=width, layers=layers, heads=heads
  )

  def logits(params: Tree, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    rows = rows.astype(jnp.int32)
    found: Any = net.apply({'params': params}, rows[:, :-1])
    return found, rows[:, 1:]

  def loss(params: Tree, batch: Tree, key: jax.Array) -> jax.Array:
    del key  # nothing is augmented
    return cross_entropy(*logits(params, batch))

  def score(params: Tree, batch: Tree) -> dict[str, jax.Array]:
    return classification_scores(*logits(params, batch))

  init = initialiser(net, jnp.asarray(train[:1, :-1], jnp.int32))
  return Task(init, loss, score, train, test, validation=valid)
