"""DES-LOC: parameters and each moment are averaged, each with its own period.

  x_i <- 1/P sum_j x_j    every `period` steps
  u_i <- 1/P sum_j u_j    every `first_period` steps, u: the first moment
  v_i <- 1/P sum_j v_j    every `second_period` steps, v: the second moment

at the end of a step; the paper averages moments before they are used and
parameters before they are changed. With Adam it sends 4 n (1/Kx + 1/Ku + 1/Kv)
bytes per step, times 2 (P - 1) / P in a ring; SGD has at most a first moment.
Optimizers that keep other arrays (amsgrad, adagrad) are refused.
With equal periods it is Local Adam; without exchanges of moments it is local
SGD. With periods of 1 it is not all-reduce Adam: the mean of squares is not the
square of the mean.

Iacob et al., DES-LOC: desynced low communication adaptive optimizers for
training foundation models, 2025. arXiv:2505.22549. Ku = 3 Kx, Kv = 6 Kx. Its
abstract claims 170 times fewer bytes than data parallel, which fits Kx = 256.
"""

from gossipjax.aggregator import Strategy, chain, every, identity
from gossipjax.strategies.all_reduce import exact_mean
from gossipjax.transforms.moments import FIRST, SECOND, of_moments


def strategy(
  period: int = 256, first_period: int = 768, second_period: int = 1536
) -> Strategy:
  """Args:
  period: Kx >= 1, local steps between two averages of parameters.
  first_period, second_period: Ku, Kv >= 1, the same for both moments.
  """
  moments = chain(
    of_moments(FIRST, every(first_period, exact_mean())),
    of_moments(SECOND, every(second_period, exact_mean())),
  )
  return Strategy(identity(), every(period, exact_mean()), moments=moments)
