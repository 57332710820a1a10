"""All workers' states on one device, and rounds to which few of them come.

A round is the same `worker.update` over an axis of just those who came. How
the states lie in memory depends on who comes: see asynchronous_fleet.py and
synchronous_fleet.py.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import executors
from gossipjax.traffic import Traffic, from_digits
from gossipjax.training import worker_program
from gossipjax.training.ledger import Ledger
from gossipjax.worker import Worker


class State(NamedTuple):
  """All that a fleet holds, leaves [workers, ...]."""

  workers: Worker  # A server's center once.
  gradients: Any  # Like their parameters; each worker's pending one.
  losses: jax.Array  # f32[workers]; where those were taken.


class Fleet:
  """A `timeline.Player` that really learns.

  Attributes:
    size: so many workers.
    examples: of all, leaves [workers, m, ...].
    state: a `State`, for a checkpoint; may be set.
    held: the same as it lies in memory.
  """

  state: State
  held: Any

  def __init__(self, run: worker_program.Session, config, ledger: Ledger):
    self._run, self._ledger, self.size = run, ledger, config.workers
    workers, self.examples = worker_program.start(run, config)
    self._price = jax.jit(lambda *given: self._round(*given)[-1])
    self._looks = functools.cache(self._price_looks)
    self._fixed_price = functools.lru_cache(1024)(
      lambda come, step: self._ask_price(range(come), step)
    )
    self.state = State(
      self._without_copies(workers),
      jax.tree.map(jnp.zeros_like, workers.params),
      jnp.zeros(self.size),
    )

  @property
  def params(self) -> Any:
    """Everyone's parameters, leaves [workers, ...]."""
    return self.state.workers.params

  @property
  def center(self) -> Any:
    """The server's parameters; None if there is no server."""
    return None

  def price(self, who: Sequence[int], step: int) -> Traffic:
    """See `timeline.Player`."""
    if self._looks(len(who)):
      return self._ask_price(who, step)
    return self._fixed_price(len(who), step)

  def _enter(self, who, losses, sent) -> Traffic:
    """Tells the ledger of a round; returns its bills."""
    found = from_digits(sent)
    self._ledger.enter(who, losses, found)
    return found

  def wait(self) -> None:
    """Until all that was begun is done."""
    jax.block_until_ready(self.held)

  def _without_copies(self, workers: Worker) -> Worker:
    return workers

  def _given(self, who: Sequence[int]) -> tuple:
    """What `_round` takes before the step."""
    raise NotImplementedError

  def _round(self, *given) -> tuple:
    """One round; the last of what it returns are the bills, u32[who, 10]."""
    raise NotImplementedError

  def _ask_price(self, who, step):
    return from_digits(self._price(*self._given(who), np.int32(step)))

  def _price_looks(self, come):
    """Whether what so many would send depends on what they hold."""
    price = jax.jit(lambda *given: self._round(*given, np.int32(0))[-1])
    return executors.looks(price, *self._given(range(come)))
