"""The process of a worker: it trains in a thread, and answers others."""

import threading
import time
import traceback
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import ray

from gossipjax import async_exchange
from gossipjax.engine import peer
from gossipjax.engine.clock import Clock
from gossipjax.engine.messages import WAIT_S, Entry, Gone, on_host
from gossipjax.engine.server_process import compile_rounds, prepare
from gossipjax.engine.setup import packed, unpacked
from gossipjax.errors import UserError


class WorkerProcess:
  """A worker in its process."""

  def __init__(self, config: dict[str, Any], number: int):
    self._setup, self.number = prepare(config), number
    self._others: dict[int, Any] = {}
    self._news: list[Entry] = []
    self._error: Exception | None = None
    self._thread: Any = None
    held = self._setup.beginning()
    self._like, self._server = held.singles[number], held.server
    self._clock = Clock()
    self._peer = self._at(self._like)
    self.step = 0

  def _at(self, single, seen: int | None = 0) -> peer.Peer:
    setup, call = self._setup, self._call
    take = lambda own, step: setup.take(own, self._server, self.number, step)
    kind = setup.exchange.kind
    return peer.Peer(
      self.number, kind, single, setup.rounds, take, call, self._clock, seen
    )

  def warm(self) -> None:
    """Compiles all programs."""
    self._at(self._like).start(0)
    compile_rounds(self._setup)

  def begin(self, leaves: list[np.ndarray], step: int) -> None:
    """Takes over a state after `step` of its own steps."""
    single = unpacked([jnp.asarray(x) for x in leaves], self._like)
    self._peer, self.step = self._at(single), step

  def join(self, params: list[np.ndarray], state: list, step: int) -> None:
    """Begins after `step` steps with the model of another process."""
    worker = self._setup.layout.joined(self._like.own, self._server)
    tree = lambda like, x: jax.tree.unflatten(jax.tree.structure(like), x)
    own = self._setup.joined(
      tree(worker.params, params), tree(worker.state, state)
    )
    self._peer = self._at(self._like._replace(own=own), seen=None)
    self.step = step

  def connect(self, others: dict[int, Any]) -> None:
    """Takes the actors of all workers, or of the server's shards."""
    self._others = others

  def start(self, step: int) -> None:
    """Computes the gradient of a step."""
    self._peer.start(step)

  def exchange(self, drawn: list[int], step: int) -> Entry:
    """Uses the gradient in a round with these workers."""
    self.step = step + 1
    return self._peer.exchange(drawn, step)

  def answer(self, *given: Any) -> Any:
    """See `peer.Peer.answer`."""
    return self._peer.answer(*given)

  def start_training(self, began: float) -> None:
    """Trains from now on; at `began` the clock of the run was 0."""
    self._clock.begin(began)
    self._thread = threading.Thread(target=self._train)
    self._thread.daemon = True
    self._thread.start()

  def pause(self, at: float) -> bool:
    """Pauses its clock; returns whether the worker is at rest."""
    self._clock.pause(at)
    works = self._thread is not None and self._thread.is_alive()
    return self._clock.idle or not works

  def resume(self, at: float) -> None:
    """Resumes its clock."""
    self._clock.resume(at)

  def news(self) -> tuple[list[Entry], Exception | None]:
    """Entries since the last call, and why training ended, if it failed."""
    entries, self._news = self._news, []
    return entries, self._error

  def state(self) -> list[np.ndarray]:
    """Returns the worker's state."""
    return self._peer.look(packed)

  def model(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Leaves of its parameters and of its model's state."""
    leaves = lambda tree: on_host(jax.tree.leaves(tree))

    def read(single):
      worker = self._setup.layout.joined(single.own, self._server)
      return leaves(worker.params), leaves(worker.state)

    return self._peer.look(read)

  def _train(self) -> None:
    try:
      # After the end of its trace a worker rests, but still answers others.
      while not self._setup.times.is_over(self.step):
        self._one_step()
    except UserError as error:
      self._error = error
    except Exception:
      self._error = RuntimeError(
        f'Worker {self.number}: {traceback.format_exc()}'
      )

  def _one_step(self) -> None:
    times, step, i = self._setup.times, self.step, self.number
    self._clock.check()
    self._peer.start(step, times.seconds(i, step, self._clock()))
    drawn = self._setup.exchange.draw(i, times.rng(i, step, what=1))
    # A push to a dead worker is sent, and lost.
    pushes = self._setup.exchange.kind == async_exchange.PUSH
    peers = [j for j in drawn if j != i and (pushes or j in self._others)]
    entry = self._peer.exchange(peers, step)
    self.step += 1
    self._news.append(entry)

  def _call(self, drawn: list[int], step: int, messages: list) -> list:
    """Asks workers, or the shards of the server; see `peer.Peer`."""
    visits = self._setup.exchange.kind == async_exchange.VISIT
    attending = 1 if visits else 1 + len(drawn)
    # By a clock that stands while all are paused.
    until, refs, answers = self._clock() + WAIT_S, {}, {}
    while True:
      others = self._others  # `connect` sets others.
      peers = [*others] if visits else drawn
      if not {*peers} <= {*others}:
        raise Gone
      for row, (j, message) in enumerate(zip(peers, messages, strict=True), 1):
        if row not in refs:  # A shard that has answered is not asked again.
          answer = others[j].answer
          refs[row] = answer.remote(row, attending, step, message)
      try:
        for row in refs:
          if row not in answers:
            waiting = row
            answers[row] = ray.get(refs[row], timeout=WAIT_S)
        return [answers[row] for row in sorted(answers)]
      except ray.exceptions.RayTaskError:
        raise  # A bug of this program; the process is alive.
      except ray.exceptions.GetTimeoutError:
        # A long message or a queue; `Monitor` kills a process that hangs.
        until = self._clock() + WAIT_S
      except ray.exceptions.RayError as error:
        if not visits:
          raise Gone from error
        if self._clock() > until:
          raise UserError(
            f'The parameter server did not answer for {WAIT_S:g} s; go on with '
            '--resume, or start a new run.'
          ) from error
        del refs[waiting]
      time.sleep(0.05)  # Until `connect` says where the server is.
      self._clock.check()
