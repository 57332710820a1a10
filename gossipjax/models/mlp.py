"""A perceptron with one or more hidden layers."""

import jax
from flax import linen as nn


class MLP(nn.Module):
  """[n, ...] -> [n, classes]."""

  classes: int
  width: int
  layers: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    x = x.reshape(len(x), -1)
    for _ in range(self.layers):
      x = nn.relu(nn.Dense(self.width)(x))
    return nn.Dense(self.classes)(x)


def mlp(classes: int, width: int = 128, layers: int = 1) -> nn.Module:
  """A perceptron with `layers` hidden layers of `width` units."""
  return MLP(classes, width, layers)
