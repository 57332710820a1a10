"""DiLoCo: many local steps, then one outer step on what they achieved.

  D = 1/P sum_i (s - x_i),    v <- m v + D,    s <- s - a (D + m v),    x_i <- s

every `period` steps, where s are the parameters from which all workers last
started. The mean progress D is the gradient of an outer SGD with Nesterov
momentum; with a = 1, m = 0 it is local SGD. The state of the inner optimizer
stays with its worker and is not reset. With AdamW inside it is the method of
the paper, with `optimizer.name=optax.contrib:muon` that of MuLoCo.

With a compressor, workers send C(b e_i - (s - x_i)) and keep in e_i what C
withholds; b = 0 keeps nothing. Messages are all-gathered, which takes fewer
bytes than a ring all-reduce of 32-bit numbers below 64 / P bits per entry, or
sent in two shots: each worker adds up one share of all messages, compresses the
sum again and sends it to all.

Douillard et al., DiLoCo: distributed low-communication training of language
models, 2023. arXiv:2311.08105; compressed: Douillard et al., Streaming DiLoCo,
2025. arXiv:2501.18512; Therien et al., MuLoCo, 2025. arXiv:2505.23725
"""

from gossipjax import compressors
from gossipjax.aggregator import Aggregator, Strategy, every, identity
from gossipjax.errors import UserError, nearest
from gossipjax.strategies.all_reduce import exact_mean
from gossipjax.strategies.compressed import compressed_mean
from gossipjax.strategies.double_squeeze import squeezed_mean
from gossipjax.transforms.outer import outer_step
from gossipjax.transforms.outer_optimizers import OuterOptimizer, nesterov

EXCHANGES = ('gather', 'two_shot')
NOT_CONSERVED = {'parameters': 'The outer momentum moves the center further.'}


def progress_mean(
  compressor: compressors.Compressor, decay: float, exchange: str, seed: int
) -> Aggregator:
  """The mean of the workers' progress: exact, or of compressed messages."""
  if exchange not in EXCHANGES:
    raise UserError(
      f'exchange={exchange} is unknown{nearest(exchange, EXCHANGES)}'
    )
  if not 0 <= decay <= 1:
    raise UserError(f'decay must be from 0 to 1, got {decay}.')
  if compressor == compressors.none():
    # 0 and 1 are defaults of strategies; without a residual they are the same.
    if exchange != EXCHANGES[0] or decay not in (0, 1):
      raise UserError(
        f'{exchange=} and {decay=} apply to compressed messages only; set '
        'compressor, for example compressor.name=linear, or leave both out.'
      )
    return exact_mean()
  if exchange == 'two_shot':
    return squeezed_mean(compressor, compressor, seed, decay)
  return compressed_mean(compressor, seed, decay)


def strategy(
  period: int = 500,
  outer: OuterOptimizer = nesterov(),
  compressor: compressors.Compressor = compressors.none(),
  decay: float = 1.0,
  exchange: str = 'gather',
  seed: int = 0,
) -> Strategy:
  """Args:
  period: H >= 1, local steps between two exchanges.
  outer: the outer optimizer; see transforms/outer_optimizers.py.
  compressor: C, which compresses each worker's progress, such as linear(4).
  decay: b, 0 to 1, factor of the residual e_i; 0 is no error feedback.
  exchange: how compressed messages are exchanged, 'gather' or 'two_shot'.
  seed: random seed, for compressors that draw random numbers.
  """
  mean = progress_mean(compressor, decay, exchange, seed)
  return Strategy(identity(), every(period, outer_step(outer, mean)))
