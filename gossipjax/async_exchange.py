"""Kinds and peers of the exchanges between asynchronous workers.

An exchange is a round of few workers: first the worker that has just stepped,
then the workers that it draws. A strategy chooses the kind of its exchanges by
one of four functions:

  visits  with a server; workers that arrive at the same time with the same
          number of steps share a round
  reads   one-sided: the worker reads what others hold when the transfer begins
  pushes  one-sided: another worker's memory receives it when the transfer ends
  meets   two-sided: both workers exchange when the transfer ends
"""

from collections.abc import Sequence

import numpy as np

from gossipjax.aggregator import Aggregator, AsyncExchange
from gossipjax.topology import Exchange, Round, Topology

KINDS = VISIT, READ, PUSH, MEET = 'visit', 'read', 'push', 'meet'


def visits(parameters: Aggregator) -> AsyncExchange:
  """An exchange with a server, which holds the field `center` of the state."""
  return AsyncExchange(parameters, VISIT, lambda worker, rng: ())


def reads(parameters: Aggregator, draw) -> AsyncExchange:
  """An exchange that reads from the drawn workers, which take no part."""
  return AsyncExchange(parameters, READ, draw)


def pushes(parameters: Aggregator, draw) -> AsyncExchange:
  """Pushes into the memory of the drawn worker, but not into its parameters."""
  return AsyncExchange(parameters, PUSH, draw)


def meets(parameters: Aggregator, draw) -> AsyncExchange:
  """Meets the drawn worker, whose parameters may change while it computes."""
  return AsyncExchange(parameters, MEET, draw)


def uniform_peers(workers: int, count: int = 1):
  """Returns a function that draws `count` of all workers uniformly.

  It draws with replacement, and the worker may draw itself.
  """
  return lambda worker, rng: rng.integers(workers, size=count).tolist()


def neighbors(topology: Topology, workers: int):
  """Returns a function that draws one neighbor of a worker in a topology.

  Neighbors are all workers to which it sends in any round.
  """
  peers = [set() for _ in range(workers)]
  for exchange in (e for exchanges in topology(workers) for e in exchanges):
    for target, source in enumerate(exchange.source):
      peers[source] |= {target} - {source}
  table = [sorted(p) for p in peers]

  def draw(worker: int, rng: np.random.Generator) -> Sequence[int]:
    choices = table[worker]
    return [choices[rng.integers(len(choices))]] if choices else []

  return draw


def pair(n: int) -> tuple[Round, ...]:
  """The topology of two workers that meet: both take the average."""
  return ((Exchange(1 / 2, tuple(reversed(range(n)))),),)


def send_half(n: int) -> tuple[Round, ...]:
  """The topology of two workers: the first sends half of its share."""
  return ((Exchange(1 / 2, (0,) * n),),)


def pull_draws(count: int, n: int) -> tuple[tuple[int, ...], ...]:
  """Draws for `pull_mean`: the first worker reads each other worker once."""
  sources = [r + 1 if r + 1 < n else 0 for r in range(count // n)]
  return (tuple(i for first in sources for i in (first, *range(1, n))),)


def push_draws(count: int, n: int) -> tuple[tuple[int, ...], ...]:
  """Draws for `push_mean`: the first worker sends to the last."""
  del count
  return ((n - 1, *range(1, n)),)
