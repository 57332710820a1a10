"""SparseLoCo: DiLoCo whose outer momentum is the memory of a compressor.

  a_i = b e_i + (x_i - s),    e_i <- a_i - C(a_i)
  s <- s + eta / P sum_i C(a_i),    x_i <- s

every `period` steps, where s are the parameters from which all workers last
started and C keeps 1-3 % of each chunk in 2 bits. With b = 1, eta = 1 nothing
is lost: P s + sum e equals sum (x + e) before. With b < 1 the residual decays
as a momentum does.

Sarfi et al., Communication efficient LLM pre-training with SparseLoCo, 2025.
arXiv:2508.15706. Period, decay and levels are not in its abstract, but ours.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from gossipjax import collectives, compressors
from gossipjax.aggregator import Aggregator, Strategy, Tree, every, identity
from gossipjax.compressors.quantised import needs_floats
from gossipjax.errors import UserError


class LocoState(NamedTuple):
  start: Tree  # Parameters after the last exchange; the same on every worker.
  residual: jax.Array  # f32[n]; progress not sent so far.


def compressed_progress(
  compressor: compressors.Compressor, decay: float, stepsize: float
) -> Aggregator:
  """Moves all workers by the mean of their compressed progress."""

  def init(tree):
    needs_floats(tree)
    size = ravel_pytree(tree)[0].size
    return LocoState(tree, jnp.zeros(size, jnp.float32))

  def update(tree, state, step, active=True):
    del step
    collectives.needs_everyone(active)
    (mine, _), (start, unravel) = map(ravel_pytree, (tree, state.start))
    wanted = decay * state.residual + (mine - start)
    message = compressor.compress(wanted)
    messages, n, sent = collectives.all_gather(message)

    mean = compressor.mean(messages, mine.size, n)
    start = unravel((start + stepsize * mean).astype(start.dtype))
    residual = compressor.withheld(wanted, message)
    return start, LocoState(start, residual), sent

  return Aggregator(init, update)


def strategy(
  compressor: compressors.Compressor = compressors.chunk_topk(0.02),
  period: int = 30,
  decay: float = 0.95,
  stepsize: float = 1.0,
) -> Strategy:
  """Args:
  compressor: C, one that draws no random numbers.
  period: local steps between two exchanges.
  decay, stepsize: b, eta of the outer steps.
  """
  if not 0 <= decay <= 1 or stepsize <= 0:
    raise UserError(
      'sparse_loco takes decay from 0 to 1 and stepsize > 0, not '
      f'{decay} and {stepsize}.'
    )
  return Strategy(
    identity(), every(period, compressed_progress(compressor, decay, stepsize))
  )
