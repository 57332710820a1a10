"""Workers of whom one or two come to a round: each has arrays of its own.

In one stack, rows would be gathered and scattered, out of cold memory.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax import async_exchange
from gossipjax.collectives import WORKERS
from gossipjax.simulation.fleet import Fleet, State
from gossipjax.traffic import Traffic, digits, from_digits
from gossipjax.training.ledger import Ledger
from gossipjax.training.worker_program import Session


class Berth(NamedTuple):
  """Of one worker."""

  own: list[jax.Array]  # Leaves of its `Worker` that are not a server's.
  gradient: Any  # Pending.
  loss: jax.Array  # f32[]; where that was taken.


class AsynchronousFleet(Fleet):
  """See `Fleet`; `way` is one of async_exchange.py."""

  def __init__(self, run: Session, config, way: str, ledger: Ledger):
    self._visit, self._answers = (
      way == async_exchange.VISIT,
      way == async_exchange.MEET,
    )
    super().__init__(run, config, ledger)
    # What one thread asks for, JAX computes in its order; so gradients, that
    # nobody needs at once, are asked for by another.
    self._other = ThreadPoolExecutor(1)
    self._start = jax.jit(self._take_gradient)
    self._play = jax.jit(self._round, donate_argnums=0)
    self._rehearse = jax.jit(self._round)
    self._rehearsed = [], ()  # By whom, and what came of it.

  @property
  def state(self) -> State:
    """See `Fleet`."""
    own, gradients, losses = _stacked(self._berths)
    return State(self._joined(own, self._server), gradients, losses)

  @state.setter
  def state(self, state: State) -> None:
    paths, self._tree = jax.tree.flatten_with_path(state.workers)
    self._served = [self._visit and _of_server(path) for path, _ in paths]
    leaves = [x for _, x in paths]
    self._server = self._part(leaves, True)
    everyone = jax.tree.map(
      jnp.asarray, Berth(self._part(leaves, False), *state[1:])
    )
    row = jax.jit(lambda tree, i: jax.tree.map(lambda x: x[i], tree))
    self._berths = [row(everyone, i) for i in range(self.size)]

  @property
  def held(self) -> Any:
    """See `Fleet`."""
    return self._berths, self._server

  @property
  def params(self) -> Any:
    """See `Fleet`."""
    return _stacked(
      [self._joined(berth.own, self._server).params for berth in self._berths]
    )

  @property
  def center(self) -> Any:
    """See `Fleet`."""
    if not self._server:
      return None
    params = self._joined(self._berths[0].own, self._server).params
    return jax.tree.unflatten(jax.tree.structure(params), self._server)

  def start(self, worker: int, step: int) -> None:
    """See `timeline.Player`, as the rest."""
    own = self._berths[worker].own
    loss, gradient = self._other.submit(
      self._start,
      own,
      self._server,
      self.examples,
      np.int32(worker),
      np.int32(step),
    ).result()
    self._berths[worker] = Berth(own, gradient, loss)

  def price(self, who: Sequence[int], step: int) -> Traffic:
    if not self._looks(len(who)):
      return super().price(who, step)
    done = self._rehearse(*self._given(who), np.int32(step))
    self._rehearsed = self._cast(who), done
    return from_digits(done[-1])

  def play(self, who: Sequence[int], step: int) -> Traffic:
    cast, done = self._rehearsed
    if [*map(id, cast)] != [*map(id, self._cast(who))]:  # Somebody moved.
      done = self._play(*self._given(who), np.int32(step))
    self._rehearsed = [], ()
    rows, self._server, sent = done
    for i, own in zip(who, rows, strict=True):
      self._berths[i] = self._berths[i]._replace(own=own)
    losses = jax.device_get([self._berths[i].loss for i in self._stepping(who)])
    return self._enter(who, np.float32(losses), sent)

  def _without_copies(self, workers):
    return jax.tree.map_with_path(
      lambda path, x: x[0] if self._visit and _of_server(path) else x, workers
    )

  def _cast(self, who):
    return [*(self._berths[i] for i in who), self._server]

  def _stepping(self, who):
    return who if self._visit else who[:1]

  def _given(self, who):
    return (
      [self._berths[i].own for i in who],
      self._server,
      [self._berths[i].gradient for i in self._stepping(who)],
    )

  def _take_gradient(self, own, server, examples, worker, step):
    params = self._joined(own, server).params
    return self._run.gradient(params, examples, worker, step)

  def _round(self, own, server, gradients, step):

    def one(own, gradient):
      first = lax.axis_index(WORKERS) == 0
      worker, sent = self._run.update(
        self._joined(own, server),
        gradient,
        step,
        True if self._visit else first,
        True if self._visit or self._answers else first,
      )
      leaves = jax.tree.leaves(worker)
      return self._part(leaves, False), self._part(leaves, True), digits(sent)

    gradient, axis = (
      (_stacked(gradients), 0) if self._visit else (gradients[0], None)
    )
    rows, server, sent = jax.vmap(
      one, axis_name=WORKERS, in_axes=(0, axis), out_axes=(0, None, 0)
    )(_stacked(own), gradient)
    return [[x[i] for x in rows] for i in range(len(own))], server, sent

  def _part(self, leaves, served):
    return [x for x, s in zip(leaves, self._served, strict=True) if s == served]

  def _joined(self, own, server):
    own, server = iter(own), iter(server)
    return jax.tree.unflatten(
      self._tree, [next(server if s else own) for s in self._served]
    )


def _stacked(trees: Sequence[Any]) -> Any:
  return jax.tree.map(lambda *each: jnp.stack(each), *trees)


def _of_server(path) -> bool:
  names = [getattr(key, 'name', None) for key in path]
  return names[0] == 'parameters' and 'center' in names
