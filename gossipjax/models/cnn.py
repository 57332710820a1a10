"""Two convolutions and two dense layers: 220,234 parameters for 28x28x1."""

import jax
from flax import linen as nn

from gossipjax.models.conv import Conv
from gossipjax.models.pool import max_pool_2x2


class CNN(nn.Module):
  """[n, height, width, channels] -> [n, classes]."""

  classes: int
  width: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    x = nn.relu(max_pool_2x2(Conv(self.width, (3, 3))(x)))
    x = nn.relu(max_pool_2x2(Conv(2 * self.width, (3, 3))(x)))
    x = nn.relu(nn.Dense(2 * self.width)(x.reshape(len(x), -1)))
    return nn.Dense(self.classes)(x)


def cnn(classes: int, width: int = 32) -> nn.Module:
  """LeNet (LeCun et al., 1998) with 3x3 convolutions and ReLU."""
  return CNN(classes, width)
