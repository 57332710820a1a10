"""SparseLoCo: DiLoCo whose outer momentum is the memory of a compressor.

  a_i = b e_i + (x_i - s),    e_i <- a_i - C(a_i)
  s <- s + eta / P sum_i C(a_i),    x_i <- s

every `period` steps, where s are the parameters from which all workers last
started and C keeps 1-3 % of each chunk in 2 bits. With b = 1, eta = 1 nothing
is lost: P s + sum e after an exchange equals sum (x + e) before it. With b < 1
the residual decays as a momentum does. The paper takes the mean over all
workers; its authors' code takes it, for each entry, over the workers that sent
it.

Sarfi et al., Communication efficient LLM pre-training with SparseLoCo, 2025.
arXiv:2508.15706. Period, decay and density are those of the authors' run of 70
B parameters, whose eta was 1 at the start and 0.4 at the end.
"""

import optax

from gossipjax import compressors
from gossipjax.aggregator import Strategy, every, identity
from gossipjax.errors import UserError, nearest
from gossipjax.strategies.compressed import MEANS, compressed_mean
from gossipjax.transforms.outer import outer_step

NOT_CONSERVED = {'parameters': 'The memory fades with every exchange.'}


def strategy(
  compressor: compressors.Compressor = compressors.chunk_topk(),
  period: int = 30,
  decay: float = 0.95,
  stepsize: float = 1.0,
  over: str = 'all',
  seed: int = 0,
) -> Strategy:
  """Args:
  compressor: C.
  period: local steps between two exchanges, at least 1.
  decay, stepsize: b, 0 to 1, and eta > 0 of the outer steps.
  over: the workers of the mean: 'all', or the 'senders' of each entry.
  seed: random seed, for compressors that draw random numbers.
  """
  if not (0 <= decay <= 1 and stepsize > 0):
    raise UserError(
      'sparse_loco takes decay from 0 to 1 and stepsize > 0, not '
      f'{decay} and {stepsize}.'
    )
  if over not in MEANS:
    raise UserError(f'over={over} is unknown{nearest(over, MEANS)}')
  mean = compressed_mean(compressor, seed, decay, over)
  outer = outer_step(optax.sgd(stepsize), mean)
  return Strategy(identity(), every(period, outer))
