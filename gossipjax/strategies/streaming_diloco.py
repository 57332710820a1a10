"""Streaming DiLoCo: fragments in turn, exchanged while workers go on.

  at t = t_f:        D_f = mean_i C(s_f - x_i,f), sent without waiting
  at t = t_f + tau:  (s_f, v_f) <- outer step on s_f with D_f,
                     x_i,f <- alpha x_i,f + (1 - alpha) s_f

for each fragment f of the layers, once in `period` steps, at t_f = f period / F
steps into the period, and first after a whole period. alpha is the weight of
the local value: 1 discards the exchange, 0 discards the local steps since it
began. With one fragment, tau = 0 and alpha = 0 it is DiLoCo.

Douillard et al., Streaming DiLoCo with overlapping communication, 2025.
arXiv:2501.18512. Its fragments have 3 blocks of a transformer; here a layer is
a module inside of a block, and there are 2 fragments by default.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from gossipjax import compressors
from gossipjax.aggregator import Aggregator, State, Strategy, Tree, identity
from gossipjax.errors import UserError
from gossipjax.strategies.diloco import progress_mean
from gossipjax.traffic import SILENCE
from gossipjax.transforms.bucketed import partitioned, seed_of
from gossipjax.transforms.fragments import fragments as fragments_of
from gossipjax.transforms.late import Late, late
from gossipjax.transforms.outer_optimizers import OuterOptimizer, nesterov

NOT_CONSERVED = {'parameters': 'The outer momentum moves the center further.'}


class FragmentState(NamedTuple):
  start: Tree  # s_f; the same on every worker.
  outer: optax.OptState  # Of the outer optimizer; the same on every worker.
  mean: State  # Of the aggregator of progress.
  gradient: Tree  # D_f, on its way or applied; the same on every worker.


def fragment_step(
  outer: OuterOptimizer,
  mean: Aggregator,
  period: int,
  offset: int,
  delay: int,
  alpha: float,
) -> Aggregator:
  """The exchange of one fragment; it has to run at each step."""

  def init(tree):
    nothing = jax.tree.map(jnp.zeros_like, tree)
    return FragmentState(tree, outer.init(tree), mean.init(tree), nothing)

  # t: steps done, less the offset; the first exchange is after a whole period.
  due = lambda t: (t % period == 0) & (t >= period)

  def depart(tree, own, step):
    return jax.tree.map(jnp.subtract, tree, own[0])

  def exchange(progress, memory, step):
    def begin():
      number = (step + 1 - offset) // period - 1
      moved, inner, sent = mean.update(progress, memory[0], number)
      return (inner, jax.tree.map(jnp.negative, moved)), sent

    due_now = due(step + 1 - offset)
    memory, sent = lax.cond(due_now, begin, lambda: (memory, SILENCE))
    return memory[1], memory, sent

  def arrive(tree, own, gradient, step):
    def outer_step():
      start, state = own
      updates, state = outer.update(gradient, state, start)
      start = optax.apply_updates(start, updates)
      mix = lambda x, s: (alpha * x + (1 - alpha) * s).astype(x.dtype)
      return jax.tree.map(mix, tree, start), (start, state)

    due_now = due(step + 1 - offset - delay)
    return lax.cond(due_now, outer_step, lambda: (tree, own))

  def split(state):
    # delay < period: only one gradient is in flight, so all entries are equal.
    own, memory = (state.start, state.outer), (state.mean, state.gradient)
    return own, memory, (state.gradient,) * delay

  joined = lambda own, memory, _: FragmentState(*own, *memory)
  return late(init, Late(delay, depart, exchange, arrive, split, joined))


def strategy(
  period: int = 100,
  fragments: int = 2,
  delay: int = 1,
  alpha: float = 0.5,
  outer: OuterOptimizer = nesterov(0.4, 0.9),
  compressor: compressors.Compressor = compressors.e3m0(),
  decay: float = 0.0,
  exchange: str = 'gather',
  pattern: str = 'strided',
  seed: int = 0,
) -> Strategy:
  """Args:
  period: H >= 1, local steps between two exchanges of a fragment.
  fragments: F, at most the number of layers.
  delay: tau, local steps while an exchange is in flight, 0 to H - 1.
  alpha: weight of the local value, 0 to 1.
  outer: the outer optimizer; see transforms/outer_optimizers.py.
  compressor, decay, exchange, seed: how progress is sent, as in `diloco`.
  pattern: 'strided', 'sequential' or 'balanced'; see transforms/fragments.py.
  """
  if not 0 <= delay < period:
    raise UserError(
      f'delay must be from 0 to below period={period} steps, got {delay}.'
    )
  if not 0 <= alpha <= 1:
    raise UserError(f'alpha must be from 0 to 1, got {alpha}.')
  make_step = lambda f: fragment_step(
    outer,
    progress_mean(compressor, decay, exchange, seed_of(f, seed)),
    period,
    f * period // max(fragments, 1),  # `cut` raises a UserError for 0.
    delay,
    alpha,
  )
  cut = lambda tree: fragments_of(tree, fragments, pattern)
  return Strategy(identity(), partitioned(cut, make_step))
