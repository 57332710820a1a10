"""Downpour SGD: push your progress to a server, pull its parameters.

  c <- c + mean_i (x_i - p_i),    x_i <- c,    p_i <- c

where p_i is what worker i pulled last. The mean is over the workers that visit
at the same time: all workers in the synchronous form, mostly one in the
asynchronous form.

Dean et al., Large scale distributed deep networks, 2012.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossipjax import async_exchange, collectives
from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  Tree,
  every,
  identity,
  select,
)


class ServerState(NamedTuple):
  center: Tree  # Held by the server; the same on every worker.
  pulled: Tree  # What this worker received last.


def push_pull() -> Aggregator:
  """Moves the center by the visitors' mean progress since their last pull."""

  def init(tree):
    return ServerState(center=tree, pulled=tree)

  def update(tree, state, step, active=True):
    del step
    progress = jax.tree.map(jnp.subtract, tree, state.pulled)
    total, count, sent = collectives.serve(progress, active)
    center = jax.tree.map(lambda c, p: c + p / count, state.center, total)
    tree, pulled = select(active, (center, center), (tree, state.pulled))
    return tree, ServerState(center, pulled), sent

  return Aggregator(init, update)


def strategy(period: int = 1) -> Strategy:
  """Args:
  period: local steps between two visits, at least 1.
  """
  visit = every(period, push_pull())
  return Strategy(
    identity(), visit, lambda workers: async_exchange.visits(visit)
  )
