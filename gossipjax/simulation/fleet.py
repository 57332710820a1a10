"""The states of all workers on one device, and rounds of some of them.

A round runs the same `worker.update` as everywhere else, over an axis of the
workers that attend it. The memory layout depends on their usual number:
`stacked_fleet` for all, `separate_fleet` for one or two.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax.aggregator import Tree
from gossipjax.local_step import Worker
from gossipjax.traffic import Traffic, unpack_traffic
from gossipjax.training.ledger import Ledger
from gossipjax.transforms import traced

Held = Any  # The states of all workers, in the layout of a fleet.
Given = Callable[[int, int], Tree]  # (worker, step) -> examples.


class State(NamedTuple):
  """The states of all workers, leaves [workers, ...]."""

  workers: Worker  # A server's center is stored once, without that axis.
  gradients: Tree  # The pending gradients, like the parameters.
  losses: jax.Array  # f32[workers]; of the batches of these gradients.


class Fleet(NamedTuple):
  """Functions over the states of all workers.

  Attributes:
    hold: State -> held.
    state: held -> State, for a checkpoint.
    params: held -> parameters of all for evaluation, leaves [workers, ...].
    model_state: held -> other state of all workers' models, likewise.
    center: held -> the server's parameters; None if there is no server.
    start: (held, worker, step) -> held; the worker computes the gradient of its
      step at its current parameters and keeps it pending.
    round_traffic: (held, who, step) -> (held, Traffic of leaves [who]): what
      `run_round` would send; changes no worker.
    run_round: (held, who, step) -> (held, losses, Traffic): a round of the
      workers `who`; losses f32[...] are those of the gradients that it used.
    run_silent_round: the same for a silent round in which the other workers are
      lost: it runs the round of all but leaves the lost workers unchanged.
    fetch: (held, worker, giver, dry_run) -> (held, Traffic of both): the
      worker copies the giver's parameters and optimizer state; a dry run only
      computes the traffic.
  """

  hold: Callable[[State], Held]
  state: Callable[[Held], State]
  params: Callable[[Held], Tree]
  model_state: Callable[[Held], Tree]
  center: Callable[[Held], Tree | None]
  start: Callable[[Held, int, int], Held]
  round_traffic: Callable[[Held, Sequence[int], int], tuple[Held, Traffic]]
  run_round: Callable[
    [Held, Sequence[int], int], tuple[Held, np.ndarray, Traffic]
  ]
  run_silent_round: Callable[..., Any] | None = None  # As `run_round`.
  fetch: Callable[[Held, int, int, bool], tuple[Held, Traffic]] | None = None


def beginning(workers: Worker) -> State:
  """Returns the state of workers before their first gradient."""
  count = len(jax.tree.leaves(workers.params)[0])
  gradients = jax.tree.map(jnp.zeros_like, workers.params)
  return State(workers, gradients, jnp.zeros(count))


class Runner:
  """Plays the rounds of a fleet and enters them into a ledger.

  It implements `timeline.Runner` and is the only mutable object of this file.
  """

  def __init__(self, fleet: Fleet, state: State, ledger: Ledger):
    self._fleet, self._ledger = fleet, ledger
    self.held = fleet.hold(state)

  @property
  def state(self) -> State:
    """What a checkpoint keeps; may be set."""
    return self._fleet.state(self.held)

  @state.setter
  def state(self, state: State) -> None:
    self.held = self._fleet.hold(state)

  @property
  def params(self) -> Tree:
    """Parameters of all workers, leaves [workers, ...]."""
    return self._fleet.params(self.held)

  @property
  def model_state(self) -> Tree:
    """State of all workers' models besides the parameters, likewise."""
    return self._fleet.model_state(self.held)

  @property
  def center(self) -> Tree | None:
    """The server's parameters; None if there is no server."""
    return self._fleet.center(self.held)

  def start(self, worker: int, step: int) -> None:
    """See `timeline.Runner`, also for the next methods."""
    self.held = self._fleet.start(self.held, worker, step)

  def round_traffic(self, who: Sequence[int], step: int) -> Traffic:
    self.held, sent = self._fleet.round_traffic(self.held, who, step)
    return sent

  def run_round(self, who: Sequence[int], step: int) -> Traffic:
    self.held, losses, sent = self._fleet.run_round(self.held, who, step)
    self._ledger.add_round(who, losses, sent)
    return sent

  def run_silent_round(self, who: Sequence[int], step: int) -> Traffic:
    self.held, losses, sent = self._fleet.run_silent_round(self.held, who, step)
    self._ledger.add_round(who, losses, sent)
    return sent

  def fetch(self, worker: int, giver: int, dry_run: bool) -> Traffic:
    self.held, sent = self._fleet.fetch(self.held, worker, giver, dry_run)
    if not dry_run:
      self._ledger.add_round([worker, giver], np.zeros(0), sent)
    return sent

  def wait(self) -> None:
    """Blocks until all dispatched computations are done."""
    jax.block_until_ready(self.held)


def rows_of(tree: Tree, who: Any) -> Tree:
  """Returns the rows of the workers `who`, i32[...]; all rows if it is None."""
  return tree if who is None else jax.tree.map(lambda x: x[who], tree)


class RoundTraffic(NamedTuple):
  """Functions that say what a round would send.

  Attributes:
    depends: (held, who) -> whether the traffic of a round of so many workers
      depends on their states.
    compute: (held, who, step) -> Traffic, computed from the states.
    look_up: the same for traffic that does not depend on the states; computed
      once for each step and number of workers.
  """

  depends: Callable[[Held, Sequence[int]], bool]
  compute: Callable[[Held, Sequence[int], int], Traffic]
  look_up: Callable[[Held, Sequence[int], int], Traffic]


_REMEMBERED = 1024  # Bills that are kept at most.


def round_traffic_of(round_: Callable, arguments: Callable) -> RoundTraffic:
  """Makes the RoundTraffic of a round, compiled without the rest of the round.

  Args:
    round_: a round, (*arguments, step) -> (..., u32[who, 20]), its bills last.
    arguments: (held, who) -> arguments of the round.
  """
  bill = jax.jit(lambda *args: round_(*args)[-1])
  depends_by_count, bills = {}, {}

  def depends(held, who):
    if len(who) not in depends_by_count:
      bill_at_0 = jax.jit(lambda *args: round_(*args, np.int32(0))[-1])
      args = arguments(held, who)
      depends_by_count[len(who)] = traced.depends_on_values(bill_at_0, *args)
    return depends_by_count[len(who)]

  def compute(held, who, step):
    return unpack_traffic(bill(*arguments(held, who), np.int32(step)))

  def look_up(held, who, step):
    key = len(who), step
    if key not in bills:
      if len(bills) == _REMEMBERED:
        bills.clear()
      bills[key] = compute(held, who, step)
    return bills[key]

  return RoundTraffic(depends, compute, look_up)
