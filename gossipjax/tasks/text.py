"""Prediction of the next byte of a text."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import models
from gossipjax.data import split as splits
from gossipjax.data import text as written
from gossipjax.data.holdout import hold_out
from gossipjax.tasks.task import (
  Task,
  classification_scores,
  cross_entropy,
  initialiser,
  split_function,
)

Tree = Any


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
  rows = split_function(split, choices)(np.arange(len(train)), workers, seed)[
    mine
  ]
  net = models.make(
    model, written.BYTES, models.TEXT, width=width, layers=layers, heads=heads
  )

  def logits(params: Tree, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    rows = rows.astype(jnp.int32)
    return net.apply({'params': params}, rows[:, :-1]), rows[:, 1:]

  def loss(params: Tree, batch: Tree, key: jax.Array) -> jax.Array:
    del key  # nothing is augmented
    return cross_entropy(*logits(params, batch))

  def score(params: Tree, batch: Tree) -> dict[str, jax.Array]:
    return classification_scores(*logits(params, batch))

  init = initialiser(net, np.int32(train[:1, :-1]))
  return Task(init, loss, score, splits.share(train, rows, examples), test)
