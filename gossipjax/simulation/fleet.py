"""The states of all workers on one device, and rounds that some attend.

A round is the same `worker.update` as everywhere else, over an axis of those
who attend. The memory layout depends on the usual number of those workers:
`stacked_fleet` for all, `separate_fleet` for one or two.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax.aggregator import Tree
from gossipjax.local_step import Worker
from gossipjax.traffic import Traffic, from_digits
from gossipjax.training.ledger import Ledger
from gossipjax.transforms import traced

Held = Any  # The states of all workers, as they lie in memory.
Given = Callable[[int, int], Tree]  # (worker, step) -> examples.


class State(NamedTuple):
  """The states of all workers, leaves [workers, ...]."""

  workers: Worker  # A server's center once, without the axis of workers.
  gradients: Tree  # Like the parameters; the pending one of each worker.
  losses: jax.Array  # f32[workers]; of those gradients' batches.


class Fleet(NamedTuple):
  """Functions over the states of all workers.

  Attributes:
    hold: State -> held.
    state: held -> State, for a checkpoint.
    params: held -> parameters of all to be evaluated, leaves [workers, ...].
    model_state: held -> what the models of all keep besides, likewise.
    center: held -> the server's parameters; None if there is no server.
    start: (held, worker, step) -> held; the worker computes the gradient of its
      step at its present parameters, which is pending from then on.
    price: (held, who, step) -> (held, Traffic of leaves [who]): what `play`
      would send; changes no worker.
    play: (held, who, step) -> (held, losses, Traffic): a round that those
      attend; the losses f32[...] of the gradients that it used.
    play_lost: the same for a silent round of which the others are lost: the
      round of all, which leaves the lost as they are.
    fetch: (held, worker, giver, dry_run) -> (held, Traffic of both): the
      worker takes over the giver's parameters and optimizer state; in a dry run
      only the bill is made.
  """

  hold: Callable[[State], Held]
  state: Callable[[Held], State]
  params: Callable[[Held], Tree]
  model_state: Callable[[Held], Tree]
  center: Callable[[Held], Tree | None]
  start: Callable[[Held, int, int], Held]
  price: Callable[[Held, Sequence[int], int], tuple[Held, Traffic]]
  play: Callable[[Held, Sequence[int], int], tuple[Held, np.ndarray, Traffic]]
  play_lost: Callable[..., tuple[Held, np.ndarray, Traffic]] | None = None
  fetch: Callable[[Held, int, int, bool], tuple[Held, Traffic]] | None = None


def beginning(workers: Worker) -> State:
  """The state of workers that have not computed yet."""
  count = len(jax.tree.leaves(workers.params)[0])
  gradients = jax.tree.map(jnp.zeros_like, workers.params)
  return State(workers, gradients, jnp.zeros(count))


class Player:
  """Plays the rounds of a fleet and enters them into a ledger.

  A `timeline.Player`; the only thing here that changes.
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
    """What the models of all workers keep besides parameters, likewise."""
    return self._fleet.model_state(self.held)

  @property
  def center(self) -> Tree | None:
    """The server's parameters; None if there is no server."""
    return self._fleet.center(self.held)

  def start(self, worker: int, step: int) -> None:
    """See `timeline.Player`, as the rest."""
    self.held = self._fleet.start(self.held, worker, step)

  def price(self, who: Sequence[int], step: int) -> Traffic:
    self.held, sent = self._fleet.price(self.held, who, step)
    return sent

  def play(self, who: Sequence[int], step: int) -> Traffic:
    self.held, losses, sent = self._fleet.play(self.held, who, step)
    self._ledger.add_round(who, losses, sent)
    return sent

  def play_lost(self, who: Sequence[int], step: int) -> Traffic:
    self.held, losses, sent = self._fleet.play_lost(self.held, who, step)
    self._ledger.add_round(who, losses, sent)
    return sent

  def fetch(self, worker: int, giver: int, dry_run: bool) -> Traffic:
    self.held, sent = self._fleet.fetch(self.held, worker, giver, dry_run)
    if not dry_run:
      self._ledger.add_round([worker, giver], np.zeros(0), sent)
    return sent

  def wait(self) -> None:
    """Blocks until all that was begun is done."""
    jax.block_until_ready(self.held)


def rows_of(tree: Tree, who: Any) -> Tree:
  """Those of some workers, i32[...]; all of them if `who` is None."""
  return tree if who is None else jax.tree.map(lambda x: x[who], tree)


class Price(NamedTuple):
  """What a round would send.

  Attributes:
    depends: (held, who) -> whether what so many would send depends on their
      states.
    ask: (held, who, step) -> Traffic, computed from the states.
    look_up: the same where it does not depend on them, computed once.
  """

  depends: Callable[[Held, Sequence[int]], bool]
  ask: Callable[[Held, Sequence[int], int], Traffic]
  look_up: Callable[[Held, Sequence[int], int], Traffic]


_REMEMBERED = 1024  # Prices.


def price_of(round_: Callable, arguments: Callable) -> Price:
  """The price of rounds, compiled without what else they compute.

  Args:
    round_: (*arguments, step) -> (..., u32[who, 20]), a round; last its bills.
    arguments: (held, who) -> arguments of the round.
  """
  bill = jax.jit(lambda *given: round_(*given)[-1])
  found, prices = {}, {}

  def depends(held, who):
    if len(who) not in found:
      first = jax.jit(lambda *given: round_(*given, np.int32(0))[-1])
      given = arguments(held, who)
      found[len(who)] = traced.depends_on_values(first, *given)
    return found[len(who)]

  def ask(held, who, step):
    return from_digits(bill(*arguments(held, who), np.int32(step)))

  def look_up(held, who, step):
    key = len(who), step
    if key not in prices:
      if len(prices) == _REMEMBERED:
        prices.clear()
      prices[key] = ask(held, who, step)
    return prices[key]

  return Price(depends, ask, look_up)
