"""D^2: gossip corrected for workers whose data differ.

  x_i(t+1) = sum_j W_ij (2 x_j(t) - x_j(t-1) - eta g_j(t) + eta g_j(t-1))

and W (x - eta g) in the first step. With y = x - eta g, the parameters after
the optimizer's step, this is

  m_i(t) = y_i(t) + c_i(t)
  c_i(t+1) = c_i(t) + sum_j W_ij (m_j(t) - m_i(t)),    c_i(0) = 0
  x_i(t+1) = y_i(t) + c_i(t+1)

which stores one vector c_i and needs no learning rate. The mean of the workers
is preserved, since the c_i add up to zero. Computed as x_i - y_i instead, c_i
would keep the rounding error of x_i and add it to the mean at every later step.
All eigenvalues of W must be above -1/3. A ring with an even number of workers
and weights of 1/3 violates this, so the default is (W + I) / 2, which is exact
diffusion.

Tang et al., D^2: decentralized training over decentralized data, 2018.
arXiv:1803.07068; Yuan et al., Exact diffusion, 2019. arXiv:1702.05122
"""

from typing import NamedTuple

import jax
import numpy as np
from jax import lax

from gossipjax import collectives, norms
from gossipjax.aggregator import Aggregator, Strategy, Tree, identity
from gossipjax.errors import UserError
from gossipjax.strategies.gossip import add_differences
from gossipjax.topology import (
  Topology,
  is_symmetric,
  mixing_matrix,
  only_round,
  ring,
)
from gossipjax.transforms.flattened import flattened

LEAST = -1 / 3  # All eigenvalues of W must be above it.
_ROUNDING = 1e-9  # Error of the eigenvalues that NumPy computes.


class CorrectionState(NamedTuple):
  correction: Tree  # c_i, in float32 or wider; over workers it adds up to zero.


def _check(topology: Topology, n: int) -> None:
  """Raises a UserError for a W with which corrections grow or do not cancel."""
  exchanges = only_round(topology, n, 'd2')
  if not is_symmetric(exchanges, n):
    raise UserError(
      'd2 needs a symmetric topology, in which workers read from each other, '
      'such as ring or complete.'
    )
  least = np.linalg.eigvalsh(mixing_matrix(exchanges, n))[0]
  if least <= LEAST + _ROUNDING:
    raise UserError(
      'd2 with lazy=False needs a topology whose mixing matrix has only '
      f'eigenvalues above -1/3, got {least:.3g} with workers={n}; set '
      'lazy=True, or topology=complete.'
    )


def half_way(topology: Topology) -> Topology:
  """(W + I) / 2, whose eigenvalues are not negative."""
  half = lambda e: e._replace(weight=e.weight / 2)
  return lambda n: tuple(tuple(map(half, r)) for r in topology(n))


def corrected_mean(topology: Topology) -> Aggregator:
  """Mixes corrected parameters with the neighbors and updates corrections."""

  def init(tree):
    return CorrectionState(norms.zeros(tree))

  def update(tree, state, step, active=True):
    collectives.needs_everyone(active)
    _check(topology, lax.axis_size(collectives.axis()))
    corrected = lambda correction: jax.tree.map(
      lambda y, c: (y + c).astype(y.dtype), tree, correction
    )
    before = state.correction
    after, sent = add_differences(before, corrected(before), topology, step)
    return corrected(after), CorrectionState(after), sent

  return Aggregator(init, update)


def strategy(topology: Topology = ring, lazy: bool = True) -> Strategy:
  """Args:
  topology: W, symmetric, the same at every step.
  lazy: whether (W + I) / 2 replaces W; False needs eigenvalues above -1/3.
  """
  graph = half_way(topology) if lazy else topology
  return Strategy(identity(), flattened(corrected_mean(graph)))
