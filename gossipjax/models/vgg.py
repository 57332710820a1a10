"""VGG-16 for 32x32: thirteen convolutions, group norm, one dense layer.

Simonyan and Zisserman, 2014. arXiv:1409.1556, configuration D. ImageNet's two
dense layers of 4,096 units are left out, as is usual for small pictures.
"""

import jax
from flax import linen as nn

from gossipjax.models.norm import group_norm
from gossipjax.models.pool import halve
from gossipjax.refusal import Refusal

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
SIDE = 2 ** len(STAGES)


class VGG(nn.Module):
  """[n, height, width, channels] -> [n, classes]; both sides at least 32."""

  classes: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    if min(x.shape[1:3]) < SIDE:
      raise Refusal(f'task.model: vgg16 needs pictures of at least {SIDE}x'
                    f'{SIDE}, not {x.shape[1]}x{x.shape[2]}; use cnn')
    for width, layers in STAGES:
      for _ in range(layers):
        x = nn.Conv(width, (3, 3), use_bias=False,
                    kernel_init=nn.initializers.he_normal())(x)
        x = nn.relu(group_norm(x))
      x = halve(x)
    return nn.Dense(self.classes)(x.reshape(len(x), -1))


def vgg16(classes: int) -> nn.Module:
  """14.7 M parameters for 32x32."""
  return VGG(classes)
