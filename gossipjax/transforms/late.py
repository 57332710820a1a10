"""An update in parts, so that its exchange can overlap the steps that follow.

  y(t) = depart(x(t)),    z(t) = exchange(y(t))
  x(t) <- arrive(x(t), z(t - tau))

`late` joins the parts to the update of one program; training/overlap.py runs
the same parts as programs of their own, of which only the exchange waits for
other workers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, State, Tree
from gossipjax.traffic import Traffic


class Late(NamedTuple):
  """The parts of an update whose exchange ends some steps after its start.

  Attributes:
    steps: tau, the steps from the start of an exchange to its arrival.
    depart: (tree, own, step) -> what the exchange takes; it sends nothing.
    exchange: (what it takes, memory, step) -> (what arrives, memory, Traffic).
    arrive: (tree, own, what arrives, step) -> (tree, own); it sends nothing.
    split: state -> (own, memory, in flight): the state of depart and arrive,
      the state of the exchange, and the `steps` results that have not arrived
      yet, the oldest first.
    joined: (own, memory, in flight) -> state.
  """

  steps: int
  depart: Callable[..., Any]
  exchange: Callable[..., tuple[Any, State, Traffic]]
  arrive: Callable[..., tuple[Tree, State]]
  split: Callable[[State], tuple[State, State, tuple[Any, ...]]]
  joined: Callable[..., State]


def late(init: Callable[[Tree], State], parts: Late) -> Aggregator:
  """The aggregator of these parts; it needs every worker.

  Args:
    init: `tree -> state`, as `parts.joined` returns it.
    parts: of the update.
  """

  def update(tree, state, step, active=True):
    collectives.needs_everyone(active)
    own, memory, in_flight = parts.split(state)
    leaving = parts.depart(tree, own, step)
    arriving, memory, sent = parts.exchange(leaving, memory, step)
    queue = (*in_flight, arriving)
    tree, own = parts.arrive(tree, own, queue[0], step)
    return tree, parts.joined(own, memory, queue[1:]), sent

  return Aggregator(init, update, parts if parts.steps else None)
