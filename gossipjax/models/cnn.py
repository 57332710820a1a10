"""Two convolutions and two dense layers: 220,234 parameters for 28x28x1."""

import jax
from flax import linen as nn


def halve(x: jax.Array) -> jax.Array:
  """The largest of every 2x2 pixels; an odd last row or column is dropped.

  As max_pool, but by reshaping: on a CPU its gradient is 2-3x faster.

  Args:
    x: [n, height, width, channels].

  Returns:
    [n, height // 2, width // 2, channels].
  """
  n, height, width, channels = x.shape
  x = x[:, :height // 2 * 2, :width // 2 * 2]
  x = x.reshape(n, height // 2, 2, width // 2, 2, channels)
  return x.max((2, 4))


class CNN(nn.Module):
  """[n, height, width, channels] -> [n, classes]."""

  classes: int
  width: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    x = halve(nn.relu(nn.Conv(self.width, (3, 3))(x)))
    x = halve(nn.relu(nn.Conv(2 * self.width, (3, 3))(x)))
    x = nn.relu(nn.Dense(2 * self.width)(x.reshape(len(x), -1)))
    return nn.Dense(self.classes)(x)


def cnn(classes: int, width: int = 32) -> nn.Module:
  """LeNet's form (LeCun et al., 1998) with 3x3 convolutions and ReLU."""
  return CNN(classes, width)
