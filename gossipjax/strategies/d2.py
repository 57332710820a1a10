"""D^2: gossip corrected for workers whose data differ.

  x_i(t+1) = sum_j W_ij (2 x_j(t) - x_j(t-1) - eta g_j(t) + eta g_j(t-1))

and W (x - eta g) in the first step. With y = x - eta g, what the optimizer
makes of x, this is

  x_i(t+1) = sum_j W_ij (y_j(t) + c_j(t)),    c_i(t+1) = x_i(t+1) - y_i(t)

which needs one vector c_i of memory, and no learning rate. The mean of the
workers is preserved: the c_i add up to zero. All eigenvalues of W must be above
-1/3. A ring with an even number of workers and weights of 1/3 violates this, so
the default is (W + I) / 2, which is exact diffusion.

Tang et al., D^2: decentralized training over decentralized data, 2018.
arXiv:1803.07068; Yuan et al., Exact diffusion, 2019. arXiv:1702.05122
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, State, Strategy, Tree, identity
from gossipjax.errors import UserError
from gossipjax.strategies.gossip import neighbor_mean
from gossipjax.topology import (
  Topology,
  is_symmetric,
  mixing_matrix,
  only_round,
  ring,
)
from gossipjax.transforms.flattened import flattened

LEAST = -1 / 3  # All eigenvalues of W are above it.
_ROUNDING = 1e-9  # Of eigenvalues that NumPy computes.


class CorrectionState(NamedTuple):
  correction: Tree  # c_i, like the parameters; over workers it adds up to zero.
  mean: State  # Of the aggregator that mixes.


def _check(topology: Topology, n: int, lazy: bool) -> None:
  """Raises a UserError for a W with which corrections grow or do not cancel."""
  exchanges = only_round(topology, n, 'd2')
  if not is_symmetric(exchanges, n):
    raise UserError(
      'd2 needs a symmetric topology, in which workers read from each other, '
      'such as ring or complete.'
    )
  least = np.linalg.eigvalsh(mixing_matrix(exchanges, n))[0]
  if not lazy and least <= LEAST + _ROUNDING:
    raise UserError(
      'd2 with lazy=False needs a topology whose mixing matrix has only '
      f'eigenvalues above -1/3, got {least:.3g} with workers={n}; set '
      'lazy=True, or topology=complete.'
    )


def corrected_mean(topology: Topology, lazy: bool) -> Aggregator:
  """Mixes parameters with corrections; a lazy mean goes half the way."""
  mean = neighbor_mean(topology)

  def init(tree):
    zeros = jax.tree.map(jnp.zeros_like, tree)
    return CorrectionState(zeros, mean.init(tree))

  def update(tree, state, step, active=True):
    collectives.needs_everyone(active)
    _check(topology, lax.axis_size(collectives.axis()), lazy)
    moved = jax.tree.map(jnp.add, tree, state.correction)
    mixed, inner, sent = mean.update(moved, state.mean, step)
    if lazy:
      mixed = jax.tree.map(lambda m, x: x + (m - x) / 2, mixed, moved)
    correction = jax.tree.map(jnp.subtract, mixed, tree)
    return mixed, CorrectionState(correction, inner), sent

  return Aggregator(init, update)


def strategy(topology: Topology = ring, lazy: bool = True) -> Strategy:
  """Args:
  topology: W, symmetric, the same at every step.
  lazy: whether it is (W + I) / 2 instead; False needs eigenvalues above -1/3.
  """
  return Strategy(identity(), flattened(corrected_mean(topology, lazy)))
