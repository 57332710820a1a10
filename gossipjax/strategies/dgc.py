"""DGC: top-k of locally accumulated velocities, not of gradients.

  u_i <- m u_i + g_i,    v_i <- v_i + u_i          (momentum correction)
  u_i <- m (u_i + g_i),  v_i <- v_i + u_i + g_i    (its Nesterov form)
  g <- mean_j top_k(v_j),    u_i, v_i <- 0 where sent    (factor masking)

The optimizer has no momentum of its own. Velocities are conserved, gradients
are not: P g + sum v after an update equals sum v before it plus the sum of this
step's u (u + g for Nesterov). With m = 0 gradients are conserved, too.

The optimizer applies weight decay, here without momentum: a decay of w shrinks
parameters by w per step, but by w / (1 - m) if the optimizer has momentum m, as
under other strategies. The authors' optimizer gives the decay a momentum of its
own; a decay of w / (1 - m) has the same effect.

Lin et al., Deep gradient compression, 2018. arXiv:1712.01887
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import collectives, norms
from gossipjax.aggregator import Aggregator, Strategy, identity, select
from gossipjax.compressors import sparse
from gossipjax.compressors.selections import Selection, exact
from gossipjax.errors import UserError
from gossipjax.flatten import ravel
from gossipjax.servers import sharded_server
from gossipjax.strategies.compressed import no_residual
from gossipjax.transforms.bucketed import bucketed
from gossipjax.transforms.granularity import Granularity, model
from gossipjax.transforms.warmup import with_warmup


class DgcState(NamedTuple):
  velocity: jax.Array  # f32[n]; u.
  residual: jax.Array  # f32[n]; v, what was not sent so far.
  past: Any = ()  # Memory of the selection.


def clipped(clip: float | None, aggregator: Aggregator) -> Aggregator:
  """Scales each worker's gradient down to a norm of clip / sqrt(P) at most.

  The norm is that of the whole tree, also if `aggregator` is bucketed; if each
  device of a worker has a shard, it is the norm of the shard.
  """
  if clip is None:
    return aggregator

  def update(gradients, state, step, active=True):
    limit = clip / lax.axis_size(collectives.axis()) ** 0.5
    norm = norms.norm(gradients)
    factor = jnp.minimum(1, limit / jnp.where(norm > 0, norm, 1))
    scaled = jax.tree.map(lambda g: (factor * g).astype(g.dtype), gradients)
    mean, state, sent = aggregator.update(scaled, state, step, active)
    return select(active, mean, gradients), state, sent

  return Aggregator(aggregator.init, update)


def velocity_mean(density, momentum, nesterov, selection) -> Aggregator:
  """The mean of the largest entries of the workers' accumulated velocities."""

  def init(tree):
    zeros = no_residual(tree).residual
    return DgcState(zeros, zeros, selection.begin())

  def update(gradients, state, step, active=True):
    g, unravel = ravel(gradients)
    if nesterov:
      u = momentum * (state.velocity + g)
      v = state.residual + u + g
    else:
      u = momentum * state.velocity + g
      v = state.residual + u
    mine, past = sparse.choose(v, density, selection, step, state.past)
    messages, count, sent = collectives.all_gather(mine, active)
    mean = sharded_server.add_up(messages, v.size) / count
    masked = lambda x: x.at[mine.indices].set(0, mode='drop')
    gradients, state = select(
      active,
      (unravel(mean.astype(g.dtype)), DgcState(masked(u), masked(v), past)),
      (gradients, state),
    )
    return gradients, state, sent

  return Aggregator(init, update)


@with_warmup
def strategy(
  density: float = 0.001,
  own_momentum: float = 0.9,
  nesterov: bool = False,
  clip: float | None = None,
  selection: Selection = exact.selection(),
  granularity: Granularity = model(),
) -> Strategy:
  """Args:
  density: k / n, above 0, at most 1.
  own_momentum: m, 0 to below 1, per step.
  nesterov: whether the Nesterov form is used.
  clip: norm above 0, or None; each worker's gradient is clipped to a norm of
    clip / sqrt(P), so that the sum of independent ones has about this norm.
  selection: how the k largest are found; `sampled` in the paper.
  granularity: which tensors are exchanged together; clip is for all of them.
  """
  if not 0 <= own_momentum < 1:
    raise UserError(
      f'own_momentum must be from 0 to below 1, got {own_momentum}.'
    )
  if clip is not None and not clip > 0:
    raise UserError(f'clip is a norm above 0 or null, got {clip}.')
  sparse.count(density, 10**9)
  mean = velocity_mean(density, own_momentum, nesterov, selection)
  # Not by with_granularity: the norm of all tensors is clipped before it.
  by_bucket = bucketed(granularity, lambda _: mean)
  return Strategy(clipped(clip, by_bucket), identity())
