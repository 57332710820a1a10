"""Decoupled DiLoCo: workers report to a syncer, which waits for a quorum only.

  D <- merge of (w_i, p_i - x_i) over reports,    w_i = c_i^2 / h_i
  s <- outer step on s with D    as soon as K workers have reported
  x_i <- s,    p_i <- s          for a worker that reports

every `period` steps of a worker, where p_i is what it received last, c_i its
examples and h_i its steps since then; batches are equal here, so w_i is h_i. A
worker whose report does not complete the quorum receives s as it is. The merge
is a mean, or direction and length apart for each tensor,

  D = (sum w_i |D_i| / sum w_i) * unit(sum w_i unit(D_i))

Asynchronous workers report at their own times. The paper also waits for a grace
time after the quorum and exchanges while it computes: neither is done here.

Decoupled DiLoCo, 2026. arXiv:2604.21428. Weights and merge are those of
readers' notes; the outer constants, which it does not give, are DiLoCo's.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from gossipjax import async_exchange, collectives
from gossipjax.aggregator import Aggregator, Strategy, Tree, identity, select
from gossipjax.errors import UserError, nearest
from gossipjax.traffic import SILENCE
from gossipjax.transforms.merges import MERGES, Reports, merged, report
from gossipjax.transforms.outer_optimizers import OuterOptimizer, nesterov

NOT_CONSERVED = {'parameters': 'The outer momentum moves the center further.'}


class SyncerState(NamedTuple):
  center: Tree  # s, held by the syncer.
  server: tuple[optax.OptState, Reports]  # Held by the syncer, too.
  pulled: Tree  # p_i, what this worker received last.
  steps: jax.Array  # i32[]; h_i.


def syncer(
  period: int, quorum: int, merge: str, outer: OuterOptimizer
) -> Aggregator:
  """Reports to the syncer at the end of each period; runs at each step."""

  def init(tree):
    nothing = jax.tree.map(jnp.zeros_like, report(tree, jnp.float32(0), merge))
    return SyncerState(tree, (outer.init(tree), nothing), tree, jnp.int32(0))

  def visit(tree, state, active):
    progress = jax.tree.map(jnp.subtract, state.pulled, tree)
    mine = report(progress, state.steps.astype(jnp.float32), merge)
    new, _, sent = collectives.serve(mine, active)
    opt, old = state.server
    reports = jax.tree.map(jnp.add, old, new)
    gradient = merged(reports, merge, state.center)
    updates, stepped = outer.update(gradient, opt, state.center)
    nothing = jax.tree.map(jnp.zeros_like, reports)
    center, *server = select(
      reports.workers >= quorum,
      (optax.apply_updates(state.center, updates), stepped, nothing),
      (state.center, opt, reports),
    )
    tree, pulled, steps = select(
      active,
      (center, center, jnp.zeros_like(state.steps)),
      (tree, state.pulled, state.steps),
    )
    return tree, SyncerState(center, tuple(server), pulled, steps), sent

  def update(tree, state, step, active=True):
    state = state._replace(steps=state.steps + 1)
    return lax.cond(
      step % period == period - 1,
      lambda: visit(tree, state, active),
      lambda: (tree, state, SILENCE),
    )

  return Aggregator(init, update)


def strategy(
  period: int = 24,
  quorum: int = 1,
  merge: str = 'direction',
  outer: OuterOptimizer = nesterov(),
) -> Strategy:
  """Args:
  period: H, local steps between two reports of a worker.
  quorum: K, reports after which the syncer takes an outer step.
  merge: mean or direction.
  outer: the outer optimizer; see transforms/outer_optimizers.py.
  """
  if period < 1 or quorum < 1:
    raise UserError(
      f'period and quorum are at least 1, got {period} and {quorum}.'
    )
  if merge not in MERGES:
    raise UserError(f'merge={merge} is unknown{nearest(merge, MERGES)}')
  parameters = syncer(period, quorum, merge, outer)
  return Strategy(
    identity(),
    parameters,
    lambda workers: async_exchange.visits(parameters),
  )
