"""Outer steps: an optimizer whose gradient is the workers' mean progress."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, State, Tree


class OuterState(NamedTuple):
  start: Tree  # Parameters after the last exchange; the same on every worker.
  outer: optax.OptState  # Of the outer optimizer; the same on every worker.
  mean: State  # Of the aggregator of progress.


def outer_step(
  optimizer: optax.GradientTransformation, mean: Aggregator
) -> Aggregator:
  """Passes the workers' mean progress as a gradient to an outer optimizer.

    D = mean_i (s - x_i),    s <- optimizer's step on s with D,    x_i <- s

  Args:
    optimizer: takes the outer steps.
    mean: aggregates x_i - s; it gives all workers the same tree.
  """

  def init(tree):
    return OuterState(tree, optimizer.init(tree), mean.init(tree))

  def update(tree, state, step, active=True):
    collectives.needs_everyone(active)
    progress = jax.tree.map(jnp.subtract, tree, state.start)
    progress, inner, sent = mean.update(progress, state.mean, step)
    gradient = jax.tree.map(jnp.negative, progress)
    updates, outer = optimizer.update(gradient, state.outer, state.start)
    start = optax.apply_updates(state.start, updates)
    return start, OuterState(start, outer, inner), sent

  return Aggregator(init, update)
