"""Push-gossip: send parameters to a random worker, average what arrives.

  x_i <- (w x_i + sum of the m arrived x_j) / (w + m)

Each worker sends to a target drawn uniformly from all workers and does not wait
for it; w is 1, or 2 for a worker that drew itself. Parameters sent to an absent
worker wait in its inbox. The mean of the workers is NOT preserved. The momentum
is local.

Jin et al., How to scale distributed deep learning?, 2016. arXiv:1611.04581
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
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
from gossipjax.topology import Draws, random_targets
from gossipjax.transforms.flattened import flattened
from gossipjax.transforms.nesterov import without_look_ahead

NOT_CONSERVED = {
  'parameters': 'The worker that receives changes, the sender does not.'
}


class InboxState(NamedTuple):
  inbox: Tree  # Like the parameters; the sum of what arrived while absent.
  waiting: jax.Array  # i32[]; how many trees are in it.


def push_mean(draws: Draws = random_targets) -> Aggregator:
  """Averages with all trees that arrived since this worker last took part."""

  def init(tree):
    return InboxState(jax.tree.map(jnp.zeros_like, tree), jnp.int32(0))

  def update(tree, state, step, active=True):
    n, me = (f(collectives.axis()) for f in (lax.axis_size, lax.axis_index))
    targets = draws(n, n)
    turn = step % len(targets)
    pushes = [
      functools.partial(collectives.push, tree, t, active) for t in targets
    ]
    arrived, count, sent = lax.switch(turn, pushes)
    inbox = jax.tree.map(jnp.add, state.inbox, arrived)
    m = state.waiting + count

    drew_itself = np.asarray(targets) == np.arange(n)
    w = 1 + jnp.asarray(drew_itself)[turn, me].astype(jnp.int32)
    mean = lambda x, i: (
      x + (i - m.astype(x.dtype) * x) / (w + m).astype(x.dtype)
    )
    mixed, empty = jax.tree.map(mean, tree, inbox), init(tree)
    tree, state = select(active, (mixed, empty), (tree, InboxState(inbox, m)))
    return tree, state, sent

  return Aggregator(init, update)


def strategy(
  period: int = 1, look_ahead: float = 0.9, seed: int = 0, schedule: int = 16
) -> Strategy:
  """Args:
  period: tau >= 1, local steps between two exchanges.
  look_ahead: momentum of the local `optax.sgd(..., nesterov=True)`, whose
    look-ahead is not exchanged; 0 if it has none.
  seed: random seed of the targets, the same on all workers.
  schedule: draws before they repeat, see `topology.random_targets`.
  """

  def exchange(draws):
    push = every(period, flattened(push_mean(draws)))
    return without_look_ahead(look_ahead, push)

  random_draws = functools.partial(random_targets, seed=seed, schedule=schedule)
  return Strategy(
    identity(),
    exchange(random_draws),
    lambda workers: async_exchange.pushes(
      exchange(async_exchange.push_draws), async_exchange.uniform_peers(workers)
    ),
  )
