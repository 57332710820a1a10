"""Patches of images in uncorrelated coordinates of variance one.

Jordan, 94% on CIFAR-10 in 3.29 seconds on a single GPU, 2024. arXiv:2404.00498,
section 3.2. There whitening is the network's first layer, with fixed weights;
here it is applied before the network.
"""

import jax
import jax.numpy as jnp
import numpy as np

SIDE = 2
SAMPLE = 5_000  # Images that the covariance is estimated on.
LEAST = 5e-4  # Added to variances.


def filters(images: np.ndarray) -> np.ndarray:
  """Eigenvectors of the patches' covariance, divided by its eigenvalues' roots.

  Args:
    images: f32[n, height, width, channels], normalised.

  Returns:
    f32[2, 2, channels, 4 channels], filters of a convolution.
  """
  windows = np.lib.stride_tricks.sliding_window_view(
    images[:SAMPLE], (SIDE, SIDE), axis=(1, 2)
  )  # [n, height', width', channels, 2, 2]
  patches = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, 4 * images.shape[3])
  values, vectors = np.linalg.eigh(patches.T @ patches / len(patches))
  found = vectors / np.sqrt(values + LEAST)
  return np.float32(found).reshape(SIDE, SIDE, images.shape[3], -1)


def whiten(x: jax.Array, filters: np.ndarray) -> jax.Array:
  """Returns each patch in the coordinates that the filters define.

  Args:
    x: f32[n, height, width, channels], normalised.
    filters: as `filters` returns them.

  Returns:
    f32[n, height - 1, width - 1, 4 channels].
  """
  return jax.lax.conv_general_dilated(
    x,
    jnp.asarray(filters),
    (1, 1),
    'VALID',
    dimension_numbers=('NHWC', 'HWIO', 'NHWC'),
  )
