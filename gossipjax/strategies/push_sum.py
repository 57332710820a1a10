"""Stochastic gradient push: directed gossip with weights (push-sum).

  x_i <- x_i - step(z_i)
  (x_i, w_i) <- sum of the shares (x_j, w_j) / 2 that arrive and that stay
  z_i <- x_i / w_i

Workers train on z. The sums of x and of w are preserved even if workers are
absent: a share whose receiver is absent stays with its sender. An asynchronous
worker sends a share to one other worker, and its step of z counts w times in x
(GoSGD). While a worker receives nothing, its w halves with each share that it
sends; with w below LEAST it sends zeros.

Assran et al., Stochastic gradient push for distributed deep learning, 2019.
arXiv:1811.10792; Kempe et al., Gossip-based computation of aggregate
information, 2003; Blot et al., Gossip training for deep learning, 2016.
arXiv:1611.09726
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
from gossipjax.topology import Round, Topology, exponential
from gossipjax.traffic import SILENCE
from gossipjax.transforms.flattened import flattened

LEAST = 2.0**-40  # Far above the w at which x / w becomes 0 / 0.


class PushSumState(NamedTuple):
  residual: Tree  # Like the parameters; x - z.
  weight: jax.Array  # f32[]; w.


def _share(held, active, exchanges: Round):
  heavy = held[1] >= LEAST
  given = jax.tree.map(lambda x: jnp.where(heavy, x, 0), held)
  kept, sent = held, SILENCE
  for weight, source in exchanges:
    theirs, _, gave, cost = collectives.meet(given, source, active=active)
    kept = jax.tree.map(
      lambda k, t, x: k + weight * (t - jnp.where(gave, x, 0)),
      kept,
      theirs,
      given,
    )
    sent += cost
  return kept, sent


def push_sum_mean(topology: Topology, weighted: bool = False) -> Aggregator:
  """Sends shares of (x, w) along the edges of the round.

  Args:
    topology: edges of each round.
    weighted: whether a step of z counts w times in x, as in GoSGD; if not, it
      counts once and moves z by 1 / w as much, which is large for a small w.
  """

  def init(tree):
    return PushSumState(jax.tree.map(jnp.zeros_like, tree), jnp.float32(1))

  def update(tree, state, step, active=True):
    rounds = topology(lax.axis_size(collectives.axis()))
    # Applies to x the optimizer's step on z.
    x = (
      jax.tree.map(lambda z: z * state.weight.astype(z.dtype), tree)
      if weighted
      else jax.tree.map(jnp.add, tree, state.residual)
    )
    held = x, state.weight
    shares = [functools.partial(_share, held, active, r) for r in rounds]
    (x, w), sent = lax.switch(step % len(rounds), shares)
    z = jax.tree.map(lambda x: x / w.astype(x.dtype), x)
    residual = jax.tree.map(jnp.subtract, x, z)
    tree, state = select(active, (z, PushSumState(residual, w)), (tree, state))
    return tree, state, sent

  return Aggregator(init, update)


def strategy(topology: Topology = exponential, period: int = 1) -> Strategy:
  """Args:
  topology: directed or not; `exponential` sends to one worker per step, 1, 2,
    4, ... hops away. An asynchronous worker draws one of these targets; GoSGD
    draws one of all workers, as with `complete`.
  period: local steps between two exchanges, at least 1.
  """

  def exchange(*arguments):
    return every(period, flattened(push_sum_mean(*arguments)))

  return Strategy(
    identity(),
    exchange(topology),
    lambda workers: async_exchange.meets(
      exchange(async_exchange.send_half, True),
      async_exchange.neighbors(topology, workers),
    ),
  )
