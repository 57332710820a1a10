"""Decoupled DiLoCo: an outer step follows once a quorum has reported.

  at t = t_f:        D <- merge of (w_i, p_i - x_i) over reports,
                     s <- outer step on s with D    once there are K reports
  at t = t_f + tau:  x_i <- s,    p_i <- s          for a worker that reported
                     with the s of t_f

for each fragment f of the layers, once in `period` steps of a worker, at t_f =
f period / F steps into the period. p_i is what worker i received last, c_i
examples and h_i steps ago; w_i = c_i^2 / h_i, here h_i (equal batches). Without
a quorum a worker receives the old s. The merge is a mean, or per tensor

  D = (sum w_i |D_i| / sum w_i) * unit(sum w_i unit(D_i))

Asynchronous workers report at their own times, some perhaps twice before an
outer step. It is taken at the first report `grace` steps after the K-th, or
once there are as many reports as workers. All wait, so tau hides nothing.

Decoupled DiLoCo, 2026. arXiv:2604.21428. H = 24, w_i and merge follow notes of
readers, who use F = 24, tau = 2 (a small model has fewer layers) and the mean
for embeddings. The outer constants are unpublished; these are DiLoCo's.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import async_exchange
from gossipjax.aggregator import Aggregator, Strategy, Tree, identity, select
from gossipjax.errors import UserError
from gossipjax.traffic import SILENCE
from gossipjax.transforms.bucketed import map_parts
from gossipjax.transforms.fragments import fragments as fragments_of
from gossipjax.transforms.outer_optimizers import OuterOptimizer, nesterov
from gossipjax.transforms.quorum import Held, Quorum

NOT_CONSERVED = {'parameters': 'The outer momentum moves the center further.'}


class FragmentState(NamedTuple):
  server: Held  # Held by the syncer.
  steps: jax.Array  # i32[]; h_i.
  due: jax.Array  # i32[]; the step at which s_f arrives; -1 if none is sent.


class SyncerState(NamedTuple):
  center: Tree  # s, held by the syncer.
  pulled: Tree  # p_i, what this worker received last, or what is in flight.
  fragments: tuple[FragmentState, ...]


def _arrive(x, pulled, state, arrives):
  x, steps, due = select(
    arrives & (state.due >= 0),
    (pulled, jnp.zeros_like(state.steps), jnp.int32(-1)),
    (x, state.steps, state.due),
  )
  return x, state._replace(steps=steps, due=due)


def syncer(period: int, quorum: Quorum, count: int, delay: int) -> Aggregator:
  """Reports each fragment once in a period; runs at each step."""
  parts = lambda tree: fragments_of(tree, count, 'balanced')

  def init(tree):
    none = jnp.int32(0), jnp.int32(-1)
    begin = lambda _, x: ((x,), FragmentState(quorum.init(x), *none))
    return SyncerState(tree, tree, map_parts(parts(tree), [tree], begin)[1])

  def visit(x, s, pulled, state, step, active):
    moved = jax.tree.map(jnp.subtract, pulled, x)
    weight = state.steps.astype(jnp.float32)
    s, server, sent = quorum.serve(s, state.server, moved, weight, step, active)
    due = jnp.asarray(step + delay, jnp.int32)
    pulled, due = select(active, (s, due), (pulled, state.due))
    return s, pulled, state._replace(server=server, due=due), sent

  def exchange(f, x, s, pulled, state, step, active):
    is_due = active & (state.due <= step)
    state = state._replace(steps=state.steps + jnp.int32(active))
    x, state = _arrive(x, pulled, state, is_due)
    departs = step + 1 - f * period // count
    s, pulled, state, sent = lax.cond(
      (departs % period == 0) & (departs >= period),
      lambda: visit(x, s, pulled, state, step, active),
      lambda: (s, pulled, state, SILENCE),
    )
    x, state = _arrive(x, pulled, state, active if delay == 0 else False)
    return (x, s, pulled), (state, sent)

  def update(tree, state, step, active=True):
    trees, results = map_parts(
      parts(tree),
      (tree, state.center, state.pulled),
      lambda f, *x: exchange(f, *x, state.fragments[f], step, active),
    )
    states, sent = zip(*results, strict=True)
    return trees[0], SyncerState(*trees[1:], states), sum(sent, SILENCE)

  return Aggregator(init, update)


def strategy(
  period: int = 24,
  quorum: int = 1,
  merge: str = 'direction',
  outer: OuterOptimizer = nesterov(),
  fragments: int = 1,
  delay: int = 0,
  grace: int = 0,
) -> Strategy:
  """Args:
  period: H >= 1, local steps between two reports of a worker.
  quorum: K >= 1, reports from one or more rounds that an outer step needs.
  merge: 'mean' or 'direction'.
  outer: the outer optimizer; see transforms/outer_optimizers.py.
  fragments: F, at most the number of layers; all have about equal bytes.
  delay: tau, local steps while an exchange is in flight, 0 to H - 1.
  grace: steps >= 0 to wait after the K-th report; no effect in lock-step.
  """
  rule = Quorum(quorum, merge, outer, grace)
  rule.check()
  if not 0 <= delay < period:
    raise UserError(f'delay must be from 0 to below {period=}, got {delay}.')
  make_syncer = lambda q: syncer(period, q, fragments, delay)
  among = lambda workers: make_syncer(rule._replace(everyone=workers))
  visits = lambda workers: async_exchange.visits(among(workers))
  return Strategy(identity(), make_syncer(rule._replace(grace=0)), visits)
