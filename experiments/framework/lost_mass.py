"""The gradient mass that a sparse all-reduce neither applies nor remembers."""

import jax.numpy as jnp
import numpy as np

from experiments.framework.probe import Probe
from gossipjax.flatten import ravel

NAME = f'{__name__}:probe'
LOST = 'lost mass / applied mass'


def probe() -> Probe:
  """Measures the mass that is neither applied nor kept as a residual.

  lost = sum_i (g_i + e_i) - sum_i e_i' - P mean

  The result is the sum of |lost| over the sum of |P mean|, the applied mass.
  """

  def update(memory, tree, mean, before, after):
    del memory
    flat, applied = ravel(tree)[0], ravel(mean)[0]
    return flat + before.residual - after.residual - applied, applied

  def read(memory):
    gaps, applied = (np.asarray(x, np.float64) for x in memory)
    lost = np.abs(gaps.sum(axis=0)).sum()
    return {LOST: lost / np.abs(applied.sum(axis=0)).sum()}

  def init(tree):
    zeros = jnp.zeros_like(ravel(tree)[0])
    return zeros, zeros

  return Probe('lost mass', init, update, read)
