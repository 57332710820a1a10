"""CHOCO-SGD: gossip over compressed differences to public copies.

  y_i <- y_i + q_i,    q_i = C(x_i - y_i)
  x_i <- x_i + a d_i,    d_i = sum_j W_ij (y_j - y_i)

Each worker stores its public copy y_i and d_i, and adds sum_j W_ij (q_j - q_i)
to d_i: rounding errors have the size of the messages and do not change the mean
of the workers. The authors' code for deep learning (github.com/epfml/ChocoSGD)
mixes before it updates the copies, which are then one step older; messages
travel while the next gradient is computed.

Koloskova et al., Decentralized stochastic optimization and gossip algorithms
with compressed communication, 2019. arXiv:1902.00340
"""

from typing import NamedTuple

import jax
from jax import lax

from gossipjax import collectives, compressors, norms
from gossipjax.aggregator import Aggregator, Strategy, identity
from gossipjax.compressors.compressor import needs_contraction
from gossipjax.errors import UserError
from gossipjax.flatten import ravel
from gossipjax.strategies.gossip import add_differences
from gossipjax.topology import Topology, only_round, ring


class ChocoState(NamedTuple):
  mine: jax.Array  # f32[n]; y_i.
  offset: jax.Array  # f32[n]; d_i, whose sum over workers is zero.


def choco_mean(
  compressor: compressors.Compressor,
  topology: Topology,
  stepsize: float,
  seed: int = 0,
) -> Aggregator:
  """Moves workers towards their neighbors' public copies, on a fixed graph.

  Raises:
    UserError: the copies would diverge with this compressor, or `stepsize` is
      not above 0.
  """
  needs_contraction(compressor)
  if not stepsize > 0:
    raise UserError(f'stepsize must be above 0, got {stepsize}.')

  def init(tree):
    norms.needs_floats(tree)
    zeros = norms.zeros(ravel(tree)[0])
    return ChocoState(mine=zeros, offset=zeros)

  def update(tree, state, step, active=True):
    collectives.needs_everyone(active)
    flat, unravel = ravel(tree)
    me, n = (f(collectives.axis()) for f in (lax.axis_index, lax.axis_size))
    only_round(topology, n, 'choco')
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), me), step)
    message = compressor.compress(flat - state.mine, key)
    decode = lambda message: compressor.decompress(message, flat.size)
    mine = state.mine + decode(message)
    offset, sent = add_differences(
      state.offset, message, topology, step, decode=decode
    )
    mixed = flat + stepsize * offset
    return unravel(mixed.astype(flat.dtype)), ChocoState(mine, offset), sent

  return Aggregator(init, update)


def strategy(
  compressor: compressors.Compressor = compressors.topk(0.1),
  topology: Topology = ring,
  stepsize: float = 0.3,
  seed: int = 0,
) -> Strategy:
  """Args:
  compressor: C, which compresses differences.
  topology: W, the same at every step.
  stepsize: a > 0, the size of the consensus step; gamma in the paper.
  seed: random seed, for compressors that draw random numbers.
  """
  return Strategy(identity(), choco_mean(compressor, topology, stepsize, seed))
