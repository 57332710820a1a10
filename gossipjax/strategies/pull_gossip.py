"""Pull-gossip: average with what a random worker has published.

  x_i <- (x_i + sum_r y_j(r)) / (R + 1),    j(1..R) uniform over all workers

where y_j is x_j as j published it, after its gradient step and before its own
averaging; a worker that draws itself adds x_i. No worker waits for j, and j is
not changed: the mean of the workers is NOT preserved. The momentum is local.

Jin et al., How to scale distributed deep learning?, 2016. arXiv:1611.04581
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax import async_exchange, collectives
from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  Tree,
  every,
  identity,
  select,
)
from gossipjax.errors import UserError
from gossipjax.topology import Draws, random_targets
from gossipjax.traffic import SILENCE
from gossipjax.transforms.flattened import flattened
from gossipjax.transforms.nesterov import without_look_ahead

NOT_CONSERVED = {
  'parameters': 'The worker that reads changes, the one that is read does not.'
}


class PublishedState(NamedTuple):
  published: Tree  # Like the parameters; what others read from this worker.


def _read_all(tree, sources, active):
  total, count, sent = jax.tree.map(jnp.zeros_like, tree), 0, SILENCE
  for source in sources:
    theirs, arrived, cost = collectives.read(tree, source, active)
    total = jax.tree.map(jnp.add, total, theirs)
    count, sent = count + arrived, sent + cost
  return total, count, sent


def pull_mean(pulls: int, draws: Draws = random_targets) -> Aggregator:
  """Averages with `pulls` published trees of other workers."""
  if pulls < 1:
    raise UserError(f'pulls must be at least 1, got {pulls}.')

  def init(tree):
    return PublishedState(published=tree)

  def update(tree, state, step, active=True):
    published = select(active, tree, state.published)
    n = lax.axis_size(collectives.axis())
    sources = draws(n * pulls, n)
    rounds = [[m[r * n : (r + 1) * n] for r in range(pulls)] for m in sources]
    reads = [functools.partial(_read_all, published, r, active) for r in rounds]
    total, count, sent = lax.switch(step % len(reads), reads)
    tree = jax.tree.map(
      lambda x, t: x + (t - count.astype(x.dtype) * x) / (pulls + 1),
      tree,
      total,
    )
    return tree, PublishedState(published), sent

  return Aggregator(init, update)


def strategy(
  pulls: int = 1,
  period: int = 1,
  look_ahead: float = 0.9,
  seed: int = 0,
  schedule: int = 16,
) -> Strategy:
  """Args:
  pulls: R >= 1, workers read per exchange.
  period: tau >= 1, local steps between two exchanges.
  look_ahead: momentum of the local `optax.sgd(..., nesterov=True)`, whose
    look-ahead is not exchanged; 0 if it has none.
  seed: random seed of the draws, the same on all workers.
  schedule: draws before they repeat, see `topology.random_targets`.
  """

  def exchange(draws):
    pull = every(period, flattened(pull_mean(pulls, draws)))
    return without_look_ahead(look_ahead, pull)

  random_draws = functools.partial(random_targets, seed=seed, schedule=schedule)
  return Strategy(
    identity(),
    exchange(random_draws),
    lambda workers: async_exchange.reads(
      exchange(async_exchange.pull_draws),
      async_exchange.uniform_peers(workers, pulls),
    ),
  )
