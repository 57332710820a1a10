"""DeMo: the largest cosine coefficients of each worker's momentum travel.

  d_i <- b d_i + g_i,    q_i = top_k of T(d_i),    d_i <- d_i - T^-1 q_i
  g <- sign(T^-1 (mean of q over the workers that sent the entry))

where T is the cosine transform of blocks of 64 x 64 entries. The optimizer has
no momentum of its own: plain SGD takes the steps of DeMo, and weight decay if
any. The authors' code multiplies each gradient by its learning rate before it
enters d; here d has no rate, so that old gradients weigh less under a decaying
schedule. Blocks are cut from the vector of all parameters; that code cuts each
tensor and sends most entries of a small one.

Peng et al., DeMo: decoupled momentum optimization, 2024. arXiv:2411.19870.
Indices take 12 bits here and 64 in the released code.
"""

import jax
import jax.numpy as jnp

from gossipjax import compressors
from gossipjax.aggregator import Aggregator, Strategy, identity, select
from gossipjax.compressors.cosines import in_cosines
from gossipjax.errors import UserError, nearest
from gossipjax.strategies.compressed import MEANS, compressed_mean

NOT_CONSERVED = {'gradients': 'The memory fades, and only signs are kept.'}


def signed(aggregator: Aggregator) -> Aggregator:
  """Replaces the result of an aggregator by its signs."""

  def update(tree, state, step, active=True):
    mixed, state, sent = aggregator.update(tree, state, step, active)
    return select(active, jax.tree.map(jnp.sign, mixed), tree), state, sent

  return Aggregator(aggregator.init, update)


def strategy(
  kept: int = 32,
  block: int = 64,
  own_momentum: float = 0.999,
  sign: bool = True,
  over: str = 'senders',
) -> Strategy:
  """Args:
  kept: k, 1 to block^2, coefficients that a worker sends of each block.
  block: width and height of a block, 1 to 64; 1 is no transform.
  own_momentum: b, 0 to 1, per step.
  sign: whether g is a sign, so that each entry moves by the learning rate.
  over: 'senders' or 'all': the workers over which a mean is taken.
  """
  if not 0 <= own_momentum <= 1:
    raise UserError(f'own_momentum must be from 0 to 1, got {own_momentum}.')
  if not 1 <= block <= 64 or not 1 <= kept <= block**2:
    raise UserError(
      f'demo takes a block from 1 to 64 and 1 to block^2 kept coefficients, '
      f'got {block} and {kept}.'
    )
  if over not in MEANS:
    raise UserError(f'over={over} is unknown{nearest(over, MEANS)}')
  codec = compressors.chunk_topk(kept / block**2, block**2, bits=32)
  mean = compressed_mean(in_cosines(block, codec, over), decay=own_momentum)
  return Strategy(signed(mean) if sign else mean, identity())
