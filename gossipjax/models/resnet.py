"""Residual networks, with group norm in place of batch norm.

  y = relu(F(x) + x)

Small networks for 32x32 images (three stages of 16, 32, 64 channels), and
those for ImageNet (four stages from 64, basic or bottleneck blocks).

He et al., 2015. arXiv:1512.03385, sections 4.2 and 3.4
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from flax import linen as nn

from gossipjax.models.conv import Conv
from gossipjax.models.norm import group_norm

conv = partial(Conv, use_bias=False, kernel_init=nn.initializers.he_normal())


class Basic(nn.Module):
  """Two 3x3 convolutions."""

  width: int
  stride: int
  normed: bool

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    y = conv(self.width, (3, 3), self.stride)(x)
    y = nn.relu(group_norm(y))
    y = group_norm(conv(self.width, (3, 3))(y))
    return nn.relu(y + shortcut(x, y, self.stride, self.normed))


class Bottleneck(nn.Module):
  """A 1x1 convolution to `width` channels, a 3x3, a 1x1 to 4 `width`."""

  width: int
  stride: int
  normed: bool

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    y = nn.relu(group_norm(conv(self.width, (1, 1))(x)))
    y = conv(self.width, (3, 3), self.stride)(y)
    y = nn.relu(group_norm(y))
    y = group_norm(conv(4 * self.width, (1, 1))(y))
    return nn.relu(y + shortcut(x, y, self.stride, self.normed))


def shortcut(
  x: jax.Array, y: jax.Array, stride: int, normed: bool
) -> jax.Array:
  """x, projected where the block changes its shape (the paper's option B)."""
  if x.shape == y.shape:
    return x
  x = conv(y.shape[-1], (1, 1), stride)(x)
  return group_norm(x) if normed else x


class ResNet(nn.Module):
  """[n, height, width, channels] -> [n, classes].

  Attributes:
    stages: blocks of each stage; every stage after the first halves the image.
    width: channels of the first stage; each further stage doubles them.
    stem: 'small' is a 3x3 convolution, 'large' ImageNet's 7x7 and pooling.
    normed: whether projections are normalised, as ImageNet's are.
  """

  classes: int
  stages: tuple[int, ...]
  width: int
  block: Callable[..., nn.Module] = Basic
  stem: str = 'small'
  normed: bool = False

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    kernel, stride = ((3, 3), 1) if self.stem == 'small' else ((7, 7), 2)
    x = nn.relu(group_norm(conv(self.width, kernel, stride)(x)))
    if self.stem == 'large':
      x = nn.max_pool(x, (3, 3), (2, 2), 'SAME')
    for stage, blocks in enumerate(self.stages):
      for block in range(blocks):
        stride = 2 if stage and not block else 1
        x = self.block(self.width << stage, stride, self.normed)(x)
    return nn.Dense(self.classes)(jnp.mean(x, (1, 2)))


def resnet8(classes: int, width: int = 16) -> nn.Module:
  """One block per stage, for 32x32: 77,850 parameters."""
  return ResNet(classes, (1, 1, 1), width)


def resnet20(classes: int, width: int = 16) -> nn.Module:
  """Three blocks per stage, for 32x32: 272,282 parameters."""
  return ResNet(classes, (3, 3, 3), width)


def resnet32(classes: int, width: int = 16) -> nn.Module:
  """Five blocks per stage, for 32x32: 466,714 parameters."""
  return ResNet(classes, (5, 5, 5), width)


def resnet18(classes: int, width: int = 64, stem: str = 'small') -> nn.Module:
  """ImageNet's ResNet-18: 11.7 M parameters; stem='large' for 224x224."""
  return ResNet(classes, (2, 2, 2, 2), width, Basic, stem, True)


def resnet50(classes: int, width: int = 64, stem: str = 'small') -> nn.Module:
  """ImageNet's ResNet-50: 25.6 M parameters; stem='large' for 224x224."""
  return ResNet(classes, (3, 4, 6, 3), width, Bottleneck, stem, True)
