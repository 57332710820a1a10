"""The standard CIFAR augmentation: pad, crop at random, flip half of them.

He et al., 2015. arXiv:1512.03385, section 4.2
"""

import jax
import jax.numpy as jnp

PAD = 4


def crop_and_flip(images: jax.Array, key: jax.Array,
                  pad: int = PAD) -> jax.Array:
  """Every picture is moved by up to `pad` pixels and perhaps mirrored.

  Args:
    images: [n, height, width, channels], of any dtype.
    key: of the offsets and flips.
    pad: zeros (black) around a picture before it is cropped.

  Returns:
    The same shape and dtype.
  """
  n, height, width, _ = images.shape
  key_crop, key_flip = jax.random.split(key)
  offset = jax.random.randint(key_crop, (2, n, 1), 0, 2 * pad + 1)
  flip = jax.random.bernoulli(key_flip, shape=(n, 1))
  rows = offset[0] + jnp.arange(height)
  columns = jnp.arange(width)
  columns = offset[1] + jnp.where(flip, width - 1 - columns, columns)
  around = ((0, 0), (pad, pad), (pad, pad), (0, 0))
  padded = jnp.pad(images, around)
  take = jax.vmap(lambda image, i, j: image[i[:, None], j])
  return take(padded, rows, columns)
