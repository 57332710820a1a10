"""Workers that do not wait for each other: whom one meets, and how.

An event is a round to which few came: the worker whose step it is, then those
it drew. A strategy says with one of four functions how they come together:

  visits  to a server; who arrives at the same instant makes one round
  reads   what others hold when the transfer begins; they take no part
  pushes  to another, who finds it when the transfer ends and takes no part
  meets   another, who answers, when the transfer ends
"""

from collections.abc import Sequence

import numpy as np

from gossipjax.aggregator import Aggregator, AsyncExchange
from gossipjax.topology import Exchange, Round, Topology

VISIT, READ, PUSH, MEET = 'visit', 'read', 'push', 'meet'


def visits(parameters: Aggregator) -> AsyncExchange:
  """A field `center` of the state stays with the server."""
  return AsyncExchange(parameters, VISIT, lambda worker, rng: ())


def reads(parameters: Aggregator, draw) -> AsyncExchange:
  """One-sided: those read from need not be there."""
  return AsyncExchange(parameters, READ, draw)


def pushes(parameters: Aggregator, draw) -> AsyncExchange:
  """One-sided: the other finds it in its memory, its parameters stay."""
  return AsyncExchange(parameters, PUSH, draw)


def meets(parameters: Aggregator, draw) -> AsyncExchange:
  """Two-sided: the parameters of the other may change while it computes."""
  return AsyncExchange(parameters, MEET, draw)


def anyone(workers: int, count: int = 1):
  """Draws `count` of all workers uniformly, perhaps oneself."""
  return lambda worker, rng: rng.integers(workers, size=count).tolist()


def neighbors(topology: Topology, workers: int):
  """Draws one of those that a worker sends to in any round of a topology."""
  peers = [set() for _ in range(workers)]
  for exchange in (e for one in topology(workers) for e in one):
    for target, source in enumerate(exchange.source):
      peers[source] |= {target} - {source}
  table = [sorted(p) for p in peers]

  def draw(worker: int, rng: np.random.Generator) -> Sequence[int]:
    among = table[worker]
    return [among[rng.integers(len(among))]] if among else []

  return draw


def pair(n: int) -> tuple[Round, ...]:
  """The topology of two that meet: both take the average."""
  return ((Exchange(1 / 2, tuple(reversed(range(n)))),),)


def hand_over(n: int) -> tuple[Round, ...]:
  """The topology of two of whom the first gives half of what it has."""
  return ((Exchange(1 / 2, (0,) * n),),)


def from_the_others(count: int, n: int) -> tuple[tuple[int, ...], ...]:
  """Draws for `pull_mean`: the first reads each of the others once."""
  sources = [r + 1 if r + 1 < n else 0 for r in range(count // n)]
  return (tuple(i for first in sources for i in (first, *range(1, n))),)


def to_the_other(count: int, n: int) -> tuple[tuple[int, ...], ...]:
  """Draws for `push_mean`: the first sends to the other, if there is one."""
  del count
  return ((n - 1, *range(1, n)),)
