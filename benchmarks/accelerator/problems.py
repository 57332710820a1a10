"""Networks with random examples, on which the speed of training is measured."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gossipjax import models


class Problem(NamedTuple):
  """A network and a batch of examples.

  Attributes:
    loss: (parameters, (inputs, labels)) -> f32[].
    init: key -> parameters.
    batch: inputs and labels, [examples, ...].
    unit: unit of throughput, 'images' or 'tokens'.
    units: number of units in the batch.
  """

  loss: Callable[[Any, Any], jax.Array]
  init: Callable[[jax.Array], Any]
  batch: tuple[np.ndarray, np.ndarray]
  unit: str
  units: int


def problem(name: str, small: bool) -> Problem:
  """Returns ResNet-18 for 32x32, or a transformer of 10.9 M parameters; if
  `small`, smaller networks."""
  random = np.random.default_rng(0)
  if name == 'resnet18':
    examples, side, net = 1024, 32, models.make(name, 10)
    if small:
      examples, side, net = 8, 8, models.make('cnn', 10, width=4)
    inputs = random.standard_normal((examples, side, side, 3), np.float32)
    labels, unit, units = random.integers(0, 10, examples), 'images', examples
  else:
    examples, length, sizes = 128, 256, {'width': 384, 'layers': 6, 'heads': 6}
    if small:
      examples, length, sizes = 8, 8, {'width': 16, 'layers': 1, 'heads': 2}
    net = models.make(name, 256, models.TEXT, **sizes)
    inputs = random.integers(0, 256, (examples, length))
    labels, unit, units = np.roll(inputs, -1, 1), 'tokens', inputs.size

  def loss(params, batch):
    logits = net.apply({'params': params}, batch[0]).astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(
      logits, batch[1]
    ).mean()

  init = lambda key: net.init(key, jnp.asarray(inputs[:1]))['params']
  to_32_bits = lambda x: x if x.dtype == np.float32 else x.astype(np.int32)
  return Problem(
    loss, init, (to_32_bits(inputs), to_32_bits(labels)), unit, units
  )
