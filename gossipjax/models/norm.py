"""Normalisation within one example, which needs no other worker."""

import math

import jax
from flax import linen as nn

GROUP = 4  # Fewest channels of a group. Most groups: 32, as in the paper.


def group_norm(x: jax.Array) -> jax.Array:
  """Group norm with a scale and a bias for each channel.

  Wu and He, 2018. arXiv:1803.08494

  Args:
    x: [n, height, width, channels].

  Returns:
    The same shape: zero mean and unit variance in every group, then affine.
  """
  groups = max(1, min(32, x.shape[-1] // GROUP))
  return nn.GroupNorm(num_groups=math.gcd(x.shape[-1], groups))(x)
