"""VGG for 32x32: convolutions with group norm, dense layers.

Simonyan and Zisserman, 2014. arXiv:1409.1556, configuration D. ImageNet's two
dense layers of 4,096 units are left out, as is usual for small images.
"""

import jax
from flax import linen as nn

from gossipjax.errors import UserError
from gossipjax.models.conv import Conv
from gossipjax.models.norm import group_norm
from gossipjax.models.pool import max_pool_2x2

Stages = tuple[tuple[int, int], ...]  # Channels, convolutions.
STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


class VGG(nn.Module):
  """[n, height, width, channels] -> [n, classes].

  Attributes:
    stages: (channels, convolutions) of each; each ends by halving the image.
    units: units of a dense layer before the last; 0 for no such layer.
  """

  classes: int
  stages: Stages
  units: int = 0

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    side = 2 ** len(self.stages)
    if min(x.shape[1:3]) < side:
      raise UserError(
        f'task.model: this VGG needs images of at least {side}x'
        f'{side}, got {x.shape[1]}x{x.shape[2]}; use cnn.'
      )
    for width, layers in self.stages:
      for _ in range(layers):
        x = Conv(
          width, (3, 3), use_bias=False, kernel_init=nn.initializers.he_normal()
        )(x)
        x = nn.relu(group_norm(x))
      x = max_pool_2x2(x)
    x = x.reshape(len(x), -1)
    if self.units:
      x = nn.relu(nn.Dense(self.units)(x))
    return nn.Dense(self.classes)(x)


def vgg16(classes: int) -> nn.Module:
  """Configuration D: 14.7 M parameters for 32x32."""
  return VGG(classes, STAGES)


def vgg8(classes: int, width: int = 64) -> nn.Module:
  """A small VGG whose dense layer holds most of the parameters, as in the
  first VGGs: 3.3 M for 32x32."""
  stages = (width, 2), (2 * width, 2), (4 * width, 2)
  return VGG(classes, stages, 8 * width)
