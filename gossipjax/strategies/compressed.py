"""Compressed SGD with error feedback: all-gather everyone's small message.

  a_i = g_i + e_i,    g <- mean_j C(a_j),    e_i <- a_i - C(a_i)

Karimireddy et al., Error feedback fixes SignSGD and other gradient compression
schemes, 2019. arXiv:1901.09847
"""

from typing import Any, NamedTuple

import jax
from jax import lax

from gossipjax import collectives, compressors, norms
from gossipjax.aggregator import Aggregator, Strategy, identity, select
from gossipjax.compressors.compressor import (
  mean_over_senders,
  needs_contraction,
)
from gossipjax.flatten import ravel
from gossipjax.norms import needs_floats
from gossipjax.transforms.bucketed import with_granularity

MEANS = ('all', 'senders')


class ResidualState(NamedTuple):
  residual: jax.Array  # f32[n]; what compression has withheld so far.
  past: Any = ()  # Memory of the compressor or of its selection.


def no_residual(tree, past=()) -> ResidualState:
  """The initial state for a tree of n entries, with a residual of zeros."""
  needs_floats(tree)
  flat, _ = ravel(tree)
  return ResidualState(norms.zeros(flat), past)


def compressed_mean(
  compressor: compressors.Compressor,
  seed: int = 0,
  decay: float = 1.0,
  over: str = 'all',
) -> Aggregator:
  """The mean of compressed trees, with error feedback on each worker.

  Args:
    compressor: compresses each worker's tree.
    seed: random seed, for compressors that draw random numbers.
    decay: factor of the residual at each step; 0 is no error feedback.
    over: the workers of the mean: 'all', or for each entry the 'senders' whose
      message has it.

  Raises:
    UserError: error feedback would diverge with this compressor.
  """
  if decay:
    needs_contraction(compressor)

  def update(tree, state, step, active=True):
    flat, unravel = ravel(tree)
    wanted = flat + decay * state.residual
    me = lax.axis_index(collectives.axis())
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), me), step)
    message, past = compressor.next(wanted, key, step, state.past)
    messages, count, sent = collectives.all_gather(message, active)

    if over == 'senders':
      mean = mean_over_senders(compressor, messages, flat.size)
    else:
      mean = compressor.mean(messages, flat.size, count)
    residual = compressor.withheld(wanted, message)
    tree, state = select(
      active,
      (unravel(mean.astype(flat.dtype)), ResidualState(residual, past)),
      (tree, state),
    )
    return tree, state, sent

  return Aggregator(lambda tree: no_residual(tree, compressor.begin()), update)


@with_granularity
def strategy(
  compressor: compressors.Compressor = compressors.int8(), seed: int = 0
) -> Strategy:
  """Args:
  compressor: C.
  seed: random seed, for compressors that draw random numbers.
  """
  return Strategy(compressed_mean(compressor, seed), identity())
