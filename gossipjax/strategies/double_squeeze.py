"""DoubleSqueeze: a parameter server that receives and sends small messages.

  a_i = g_i + e_i,    s = sum_i C(a_i),    g <- D(s) / P
  e_i <- a_i - C(a_i), plus s - D(s) on the entries that worker i serves

Each worker is the server of one share of the vector. It adds the error of D to
its residual; the paper stores it in a second residual, and the sum is the same.
With C = two_bit and D = none this is MXNet's 2-bit compression.

Tang et al., DoubleSqueeze: parallel stochastic gradient descent with double-
pass error-compensated compression, 2019. arXiv:1905.05957
"""

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import collectives, compressors
from gossipjax.aggregator import Aggregator, Strategy, identity
from gossipjax.collectives import axis
from gossipjax.compressors.compressor import needs_contraction
from gossipjax.flatten import ravel
from gossipjax.strategies.compressed import ResidualState, no_residual
from gossipjax.transforms.bucketed import with_granularity


def squeezed_mean(
  push: compressors.Compressor,
  pull: compressors.Compressor,
  seed: int,
  decay: float = 1.0,
) -> Aggregator:
  """The mean through sharded servers, compressed to the servers and back.

  Args:
    push, pull: compressors of the messages to the servers, and back.
    seed: random seed, for compressors that draw random numbers.
    decay: factor of the residual at each step; 0 is no error feedback.

  Raises:
    UserError: error feedback would diverge with one of these compressors.
  """
  if decay:
    needs_contraction(push)
    needs_contraction(pull)

  def update(tree, state, step, active=True):
    collectives.needs_everyone(active)
    flat, unravel = ravel(tree)
    n, me = lax.axis_size(axis()), lax.axis_index(axis())
    wanted = flat + decay * state.residual
    wanted = jnp.pad(wanted, (0, -flat.size % n)).reshape(n, -1)
    size = wanted.shape[1]  # Of a share.
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), me), step)
    *keys, pull_key = jax.random.split(key, n + 1)

    mine = jax.vmap(push.compress)(wanted, jnp.stack(keys))
    theirs, pushed = collectives.all_to_all(mine)
    total = push.mean(theirs, size, 1)
    message = pull.compress(total, pull_key)
    messages, _, pulled = collectives.all_gather(message)

    decode = lambda compressor, messages: jax.vmap(
      lambda m: compressor.decompress(m, size)
    )(messages)
    residual = wanted - decode(push, mine)
    residual = residual.at[me].add(total - pull.decompress(message, size))
    mean = decode(pull, messages).ravel()[: flat.size] / n
    return (
      unravel(mean.astype(flat.dtype)),
      ResidualState(residual.ravel()[: flat.size]),
      pushed + pulled,
    )

  return Aggregator(no_residual, update)


@with_granularity
def strategy(
  push: compressors.Compressor = compressors.sign(),
  pull: compressors.Compressor = compressors.sign(),
  seed: int = 0,
) -> Strategy:
  """Args:
  push: C, the compressor of what workers send to each server.
  pull: D, the compressor of what each server sends to the workers.
  seed: random seed, for compressors that draw random numbers.
  """
  return Strategy(squeezed_mean(push, pull, seed), identity())
