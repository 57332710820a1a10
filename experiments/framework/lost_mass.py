"""The gradient mass that a sparse all-reduce neither applies nor remembers."""

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from experiments.framework import claim, seed_statistics
from experiments.framework.probe import Probe

LOST = 'lost mass / applied mass'


def probe() -> Probe:
  """Measures what is neither applied nor remembered, over what is applied.

  lost = sum_i (g_i + e_i) - sum_i e_i' - P mean
  """

  def update(memory, tree, mean, before, after):
    del memory
    flat, applied = ravel_pytree(tree)[0], ravel_pytree(mean)[0]
    return flat + before.residual - after.residual - applied, applied

  def read(memory):
    gaps, applied = (np.asarray(x, np.float64) for x in memory)
    lost = np.abs(gaps.sum(axis=0)).sum()
    return {LOST: lost / np.abs(applied.sum(axis=0)).sum()}

  def init(tree):
    nothing = jnp.zeros_like(ravel_pytree(tree)[0])
    return nothing, nothing

  return Probe('lost mass', init, update, read)


def gains(runs: seed_statistics.Runs) -> claim.Rows:
  """Conserving over published with the most workers, by task and density."""
  most = max(key[1] for key in runs)
  cells = dict.fromkeys(
    key[:3] for key in runs if key[1] == most and key[2] is not None
  )
  return [
    dict(zip(('task', 'workers', 'density'), cell, strict=True))
    | seed_statistics.against(
      runs, (*cell, 'conserving'), (*cell, 'published'), 'published'
    )
    for cell in cells
  ]
