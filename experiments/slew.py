"""How fast can a 2-bit codec follow? One coordinate has a large gradient.

A code stands for +-t, so that a step removes at most t from a residual: where
the mean gradient is larger, what is withheld grows for ever. Under `mean` a
code stands for the mean of |a| above t instead.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import spmd
from gossipjax.strategies import hylo

SHAPE, STEPS = (64, 32), 400
MEANS = (2., 10.)  # Of the one coordinate, in standard deviations of all.
FACTORS = (0.5, 0.8, 1., 1.25, 2.)  # c: thresholds in mean magnitudes.


def measure(factors=FACTORS, steps: int = STEPS) -> list[dict[str, Any]]:
  """A row per decode level, threshold and gradient.

  Growth is that of the residual of the large coordinate in the second half,
  per step, over its mean gradient: 1 if nothing is ever sent, 0 if it is kept
  in bounds. The error is the norm of all residuals over that of a gradient.
  """
  noise = np.random.default_rng(0).standard_normal((steps, *SHAPE))
  grid = itertools.product(('threshold', 'mean'), factors, MEANS)
  return [_row(level, factor, noise.astype('f4'), mean)
          for level, factor, mean in grid]


def _row(level: str, factor: float, gradients: np.ndarray, mean: float
         ) -> dict[str, Any]:
  gradients[:, 0, 0] += mean
  size = np.linalg.norm(gradients, axis=(1, 2)).mean()
  residuals = _residuals(level, factor, gradients)
  late = np.abs(residuals[len(residuals) // 2:, 0, 0])
  growth = np.polyfit(np.arange(len(late)), late, 1)[0] / mean
  return {'level': level, 'c': factor, 'mean gradient': mean,
          'growth': float(growth), 'residual at the end': float(late[-1]),
          'error': float(np.linalg.norm(residuals[-1]) / size)}


def _residuals(level: str, factor: float, gradients: np.ndarray) -> np.ndarray:
  """After each step, with one worker: f32[steps, *SHAPE]."""
  mean = hylo.strategy(min_size=1, level=level, factor=factor).gradients

  @spmd.on_one_device
  def run(gradients):

    def step(state, gradient):
      _, state, _ = mean.update(gradient, state, jnp.int32(0))
      return state, state.residual

    return jax.lax.scan(step, mean.init(gradients[0]), gradients)[1]

  return np.asarray(run(gradients[None])[0])
