"""ResNet-9 for 32x32 images: two residual blocks in a wide, short network.

  y = x + F(x),  after 128 and after 512 channels

Page, How to train your ResNet, 2018 (DAWNBench), with group norm in place of
batch norm. Outputs are scaled by 1/8, as there.
"""

import jax
from flax import linen as nn

from gossipjax.errors import UserError
from gossipjax.models.conv import Conv
from gossipjax.models.norm import group_norm
from gossipjax.models.pool import max_pool_2x2


class ResNet9(nn.Module):
  """[n, height, width, channels] -> [n, classes].

  Attributes:
    width: channels of the first convolution; later ones have 2, 4 and 8 times
      as many.
  """

  classes: int
  width: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    def layer(x: jax.Array, width: int) -> jax.Array:
      kernel = nn.initializers.he_normal()
      x = Conv(width, (3, 3), use_bias=False, kernel_init=kernel)(x)
      return nn.relu(group_norm(x))

    x = layer(x, self.width)
    for factor in (2, 4, 8):
      width = factor * self.width
      x = max_pool_2x2(layer(x, width))
      if factor != 4:
        x = x + layer(layer(x, width), width)
    if not x.size:
      raise UserError(
        'resnet9 halves images 3 times, and nothing is left of these; set '
        'another task.model.'
      )
    return nn.Dense(self.classes, use_bias=False)(x.max((1, 2))) / 8


def resnet9(classes: int, width: int = 64) -> nn.Module:
  """Eight convolutions and a dense layer: 6.6 M parameters."""
  return ResNet9(classes, width)
