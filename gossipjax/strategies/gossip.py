"""D-PSGD: average the parameters of neighbors after every local step.

  x_i <- sum_j W_ij x_j

An asynchronous worker averages with one random neighbor (AD-PSGD).

Lian et al., Can decentralized algorithms outperform centralized algorithms?,
2017. arXiv:1705.09056
"""

import functools
from collections.abc import Callable

import jax
from jax import lax

from gossipjax import async_exchange, collectives
from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  Tree,
  every,
  identity,
  stateless,
)
from gossipjax.errors import UserError
from gossipjax.topology import Round, Topology, is_symmetric, ring
from gossipjax.traffic import SILENCE, Traffic
from gossipjax.transforms.flattened import flattened


def add_differences(
  onto: Tree,
  x: Tree,
  topology: Topology,
  step: jax.Array,
  active: bool | jax.Array = True,
  decode: Callable[[Tree], Tree] = lambda x: x,
) -> tuple[Tree, Traffic]:
  """Returns onto_i + sum_j W_ij (x_j - x_i), and the bill.

  With a symmetric W, the terms that x_i and x_j add at workers i and j cancel,
  also in floating point: an error has the size of the differences, not of x.

  Args:
    onto: arrays, in whose dtypes differences are taken.
    x: this worker's message; decoded, it has the form of `onto`.
    topology: W; its rounds take turns from step to step.
    step: i32[]
    active: whether this worker takes part.
    decode: decodes a message.
  """
  rounds = topology(lax.axis_size(collectives.axis()))

  def decoded(message: Tree) -> Tree:
    numbers = decode(message)
    return jax.tree.map(lambda o, n: n.astype(o.dtype), onto, numbers)

  def add(exchanges: Round):
    mine, total, sent = decoded(x), onto, SILENCE
    for weight, source in exchanges:
      message, cost = collectives.swap(x, source, active)
      total = jax.tree.map(
        lambda o, t, m: o + weight * (t - m),
        total,
        decoded(message),
        mine,
      )
      sent += cost
    return total, sent

  return lax.switch(
    step % len(rounds), [functools.partial(add, r) for r in rounds]
  )


def neighbor_mean(topology: Topology) -> Aggregator:
  """Multiplies by W once; `step` cycles through the topology's rounds.

  Raises:
    UserError: workers may be absent and a round is not symmetric, so that the
      mean would change.
  """

  def update(tree, step, active):
    n = lax.axis_size(collectives.axis())
    if active is not True and not all(is_symmetric(r, n) for r in topology(n)):
      raise UserError(
        'A directed topology needs every worker in every round; ring, '
        'hypercube and complete do not.'
      )
    return add_differences(tree, tree, topology, step, active)

  return stateless(update)


def strategy(topology: Topology = ring, period: int = 1) -> Strategy:
  """Args:
  topology: W.
  period: local steps between two exchanges, at least 1.
  """

  def exchange(topology):
    return every(period, flattened(neighbor_mean(topology)))

  return Strategy(
    identity(),
    exchange(topology),
    lambda workers: async_exchange.meets(
      exchange(async_exchange.pair), async_exchange.neighbors(topology, workers)
    ),
  )
