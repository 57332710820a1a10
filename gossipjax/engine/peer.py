"""Logic of a worker and of a server shard, whatever carries the messages.

A worker computes its steps in a thread of its own and answers others
meanwhile. While it waits for its peer in a two-sided exchange, it answers BUSY:
the asker tries again, so that no two workers wait for each other.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from gossipjax import async_exchange
from gossipjax.engine.clock import Clock
from gossipjax.engine.dataflow import Arrays
from gossipjax.engine.messages import BUSY, Answer, Entry, Gone, on_host
from gossipjax.engine.partition import Partition
from gossipjax.simulation.one_worker import Single, with_state
from gossipjax.simulation.timeline import silent
from gossipjax.traffic import nbytes, unpack_traffic

_PAUSE_S = 0.004  # Longest pause before a busy worker is asked again.


class Server:
  """A shard of a server: some of its leaves.

  Attributes:
    leaves: its state.
    version: how often workers have changed it.
  """

  def __init__(self, leaves: Arrays, rounds: Callable[[int], Partition]):
    self.leaves, self._rounds, self.version = leaves, rounds, 0

  def answer(self, row: int, attending: int, step: int, message) -> Answer:
    """Its side of a round; see `Peer.answer`."""
    responder = self._rounds(attending).others[row - 1]
    self.leaves, back = responder.answer(self.leaves, message, np.int32(step))
    self.version += 1
    return Answer(on_host(back), self.version - 1)


class Peer:
  """The logic of one worker.

  Attributes:
    single: its state.
  """

  def __init__(
    self,
    number: int,
    kind: str,
    single: Single,
    rounds: Callable[[int], Partition],
    take: Callable[..., tuple[Arrays, Any, jax.Array]],
    call: Callable[[list[int], int, list[list[np.ndarray]]], list[Answer]],
    clock: Clock,
    seen: int | None = 0,
  ):
    """Makes a worker that does not train yet.

    Args:
      number: of the worker.
      kind: of its exchange, see async_exchange.py.
      single: its state.
      rounds: number of attending workers -> the partition of their round.
      take: (own leaves, step) -> (leaves of the model's state, gradient, loss).
      call: (others, step, messages) -> their answers; raises Gone. Without
        others it asks the shards of a server.
      clock: of the run.
      seen: server version that its parameters are from; None if not known.
    """
    self.number, self._kind, self.single = number, kind, single
    self._rounds, self._take, self._call = rounds, take, call
    self._clock, self._since = clock, clock()
    self._version, self._seen = 0, seen
    self._lock, self._waits = threading.Lock(), False
    self._spans: list[tuple[str, float, float]] = []
    self._refused: list[int] = []  # Bytes of messages to busy workers.

  def start(self, step: int, least_s: float = 0.0) -> None:
    """Computes a gradient at its parameters; takes at least `least_s`."""
    self._since = began = self._clock()
    if self._kind != async_exchange.VISIT:
      self._seen = self._version
    state, gradient, loss = self._take(self.single.own, np.int32(step))
    loss.block_until_ready()
    self._clock.sleep_until(began + least_s)
    with self._lock:  # Others may have changed the parameters meanwhile.
      own = with_state(self.single.own, state)
      self.single = Single(own, gradient, loss)
    self._pass('compute')

  def exchange(self, drawn: Sequence[int], step: int) -> Entry:
    """Uses the gradient in a round with the workers drawn."""
    others = list(drawn)
    while (result := self._round(others, np.int32(step))) is None:
      time.sleep(random.uniform(0, _PAUSE_S))
      self._pass('wait')
    self._pass('transfer')
    others, bills, stale = result
    spans, self._spans = self._spans, []
    refused, self._refused = self._refused, []
    loss = float(self.single.loss)
    return Entry([self.number, *others], loss, bills, stale, spans, refused)

  def answer(self, row: int, attending: int, step: int, message) -> Any:
    """Computes its side of a round that another worker has begun.

    Args:
      row: its index among the attending workers.
      attending: how many workers attend.
      step: of the other.
      message: from the other.

    Returns:
      An Answer, or BUSY.
    """
    responder = self._rounds(attending).others[row - 1]
    with self._lock:
      if self._waits:
        return BUSY
      own, back = responder.answer(self.single.own, message, np.int32(step))
      self.single = self.single._replace(own=own)
      version = self._version
      self._version += responder.changes and self._kind == async_exchange.MEET
      return Answer(on_host(back), version)  # Before they are overwritten.

  def look(self, read: Callable[[Single], Any]) -> Any:
    """Returns `read` of the worker's state, which is locked meanwhile."""
    with self._lock:
      return read(self.single)

  def _round(self, drawn: list[int], step):
    """Returns the other attending workers, the bills and the staleness.

    None if one of the others is busy.
    """
    visits = self._kind == async_exchange.VISIT
    partition = self._rounds(1 + len(drawn))
    stale = 0 if visits else self._version - self._seen
    with self._lock:
      self._waits = self._kind == async_exchange.MEET and bool(drawn)
      bills = np.stack(partition.round_traffic(self._mine(), step))
      if not bills.any() or silent(unpack_traffic(bills)):  # Fast test first.
        self._waits = False
        own = partition.alone(self._mine(), step)
        self.single = self.single._replace(own=own)
        return drawn, bills, stale
      messages = partition.request(self._mine(), step)
    try:
      if self._kind == async_exchange.PUSH:  # Needs no answer.
        self._finish(partition, [], step)
      answers = self._call(drawn, int(step), [on_host(m) for m in messages])
      if BUSY in answers:
        self._refused.append(nbytes(messages))
        return None
      if self._kind != async_exchange.PUSH:
        self._finish(partition, [a.message for a in answers], step)
    except Gone:
      if self._kind == async_exchange.PUSH:  # The step is already done.
        return [], np.zeros_like(bills[:1]), stale
      return self._round([], step)
    finally:
      self._waits = False
    if visits:
      version = answers[0].version
      # A server that was restored counts from 0.
      stale = 0 if self._seen is None else max(0, version - self._seen)
      self._seen = version + 1
    return drawn, bills, stale

  def _finish(self, partition: Partition, messages: list, step) -> None:
    with self._lock:
      own = partition.finish(self._mine(), messages, step)
      self.single = self.single._replace(own=own)

  def _mine(self) -> Arrays:
    return [*self.single.own, *jax.tree.leaves(self.single.gradient)]

  def _pass(self, kind: str) -> None:
    """Records the time since the last call as a span."""
    now = self._clock()
    self._spans.append((kind, self._since, now))
    self._since = now
