"""DGC: top-k of locally accumulated velocities, not of gradients.

  u_i <- m u_i + g_i,    v_i <- v_i + u_i          (momentum correction)
  u_i <- m (u_i + g_i),  v_i <- v_i + u_i + g_i    (its Nesterov form)
  g <- mean_j top_k(v_j),    u_i, v_i <- 0 where sent    (factor masking)

The optimizer has no momentum of its own. What enters v is conserved, not g:
P g + sum v after an update equals sum (v + u) before it, with u (u + g for
Nesterov) of this step. With m = 0 nothing of g itself is lost.

Weight decay is the optimizer's, which has no momentum here: a decay of w
shrinks parameters by w a step, and by w / (1 - m) under other strategies. The
authors' optimizer gives it a momentum of its own; w / (1 - m) does the same.

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

  The norm is that of the whole tree, also if `aggregator` is bucketed; where
  each device of a worker has a shard, that of the shard.
  """
  if clip is None:
    return aggregator

  def update(gradients, state, step, active=True):
    limit = clip / lax.axis_size(collectives.axis()) ** 0.5
    norm = norms.norm(gradients)
    factor = jnp.minimum(1, limit / jnp.where(norm > 0, norm, 1))
    short = jax.tree.map(lambda g: (factor * g).astype(g.dtype), gradients)
    mean, state, sent = aggregator.update(short, state, step, active)
    return select(active, mean, gradients), state, sent

  return Aggregator(aggregator.init, update)


def velocity_mean(density, momentum, nesterov, selection) -> Aggregator:
  """The mean of the workers' largest velocities."""

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
  clip: the largest norm of the workers' summed gradient, above 0, or None.
  selection: how the k largest are found; `sampled` in the paper.
  granularity: which tensors are exchanged together; clip is of all of them.
  """
  if not 0 <= own_momentum < 1:
    raise UserError(
      f'own_momentum must be from 0 to below 1, got {own_momentum}.'
    )
  if clip is not None and not clip > 0:
    raise UserError(f'clip is a norm above 0 or null, got {clip}.')
  sparse.count(density, 10**9)
  mean = velocity_mean(density, own_momentum, nesterov, selection)
  # Here, since clip is of all tensors and comes before they are exchanged.
  each = bucketed(granularity, lambda _: mean)
  return Strategy(clipped(clip, each), identity())
