"""The asynchronous timeline: events in the order of their time.

A worker computes a gradient at its parameters, then exchanges with the workers
that it drew, and goes on. It is idle during its exchange (a blocking send or
receive); the drawn workers compute on, only their links are busy.
"""

import heapq
import itertools
from typing import Any

import numpy as np

from gossipjax import async_exchange, network
from gossipjax.aggregator import AsyncExchange
from gossipjax.simulation import timeline
from gossipjax.simulation.compute_times import ComputeTimes
from gossipjax.simulation.shared_link import ServerLink
from gossipjax.simulation.timeline import Runner, TimeUsage, seconds, silent

# Order of events at the same time: ends first, arrivals at a server late.
DONE, BEGIN, READY, TRY, ARRIVE, LOST = range(6)
ACTS = '_done', '_begin', '_ready', '_try', '_arrive', '_lost'
_KEPT = ['now', '_queue', '_step', '_since', '_who', '_took', '_down_s']
_KEPT += ['_free', '_seen', '_version']  # In a checkpoint.


class Asynchronous:
  """All workers, each at its own time.

  Attributes:
    now: virtual seconds.
    rounds: gradients used so far, per worker on average.
    usage: see timeline.py.
  """

  def __init__(
    self,
    compute_times: ComputeTimes,
    link: network.Link,
    form: AsyncExchange,
    runner: Runner,
    fair: bool = False,
    shards: int = 1,
    serial: bool = True,
  ):
    n = compute_times.workers
    self._compute_times, self._link = compute_times, link
    self._form, self._runner, self._serial = form, runner, serial
    self.now, self.usage = 0.0, TimeUsage(n)
    self._queue = [(0.0, BEGIN, 0.0, i) for i in range(n)]
    self._queue += [(at, LOST, 0.0, i) for i, at in compute_times.failures()]
    self._step, self._since = [0] * n, [0.0] * n  # Per worker.
    self._who = [[i] for i in range(n)]  # Workers in the round of each.
    self._took = [0.0] * n  # Seconds of its exchange on idle links.
    self._down_s = [0.0] * n  # Seconds of its download from a server.
    self._free = [0.0] * n  # When its link is free.
    self._seen, self._version = [0] * n, [0] * (n + 1)  # Last: a server's.
    self._server = ServerLink(shards, fair, link.full_duplex)

  @property
  def rounds(self) -> float:
    return sum(self._step) / len(self._step)

  @property
  def utilisation(self) -> float:
    """Share of the time in which the busiest link carries data."""
    links = self.usage.busiest_s(self.now), self._server.busy_until(self.now)
    return float(max(links) / self.now) if self.now else 0.0

  def next(self) -> None:
    """Advances until at least one more gradient is used.

    Raises:
      UserError: the trace ends before there is one, or time stands still.
    """
    before, events = sum(self._step), 1000 + 100 * len(self._step)
    while sum(self._step) == before:
      events = timeline.one_fewer(events, self.now)
      at = self._server.next()
      if not self._queue and not np.isfinite(at):
        raise self._compute_times.past_trace(int(np.argmax(self._step)))
      if not self._queue or (at, ARRIVE) <= self._queue[0][:2]:
        self.now = timeline.advance(self.now, at)
        self._through()
        continue
      self.now, kind, _, worker = heapq.heappop(self._queue)
      getattr(self, ACTS[kind])(worker)

  def _at(self, time: float, kind: int, worker: int) -> None:
    entry = timeline.advance(self.now, time), kind, self._since[worker], worker
    heapq.heappush(self._queue, entry)

  def _begin(self, i: int) -> None:
    self._since[i] = self.now
    done, back = self._compute_times.attempt(i, self._step[i], self.now)
    if back > self.now:  # The gradient is lost or cannot begin.
      return self._at(back, BEGIN, i) if np.isfinite(back) else None
    if self._form.kind != async_exchange.VISIT:
      self._seen[i] = self._version[i]
    self._runner.start(i, self._step[i])
    self._at(done, READY, i)

  def _ready(self, i: int) -> None:
    self.usage.add(i, 'compute', self._since[i], self.now)
    self._since[i] = self.now
    draws = self._compute_times.rng(i, self._step[i], what=1)
    self._who[i] = [i, *(j for j in self._form.draw(i, draws) if j != i)]
    self._at(self.now, TRY, i)  # Behind workers that wait already.

  def _try(self, i: int) -> None:
    up = lambda j: self._compute_times.back(j, self.now) == self.now
    if self._form.kind != async_exchange.PUSH:  # A push reaches lost workers.
      self._who[i] = [j for j in self._who[i] if j == i or up(j)]
    bill = self._runner.round_traffic(self._who[i], self._step[i])
    if is_silent := silent(bill):
      self._run_round([i])
      self.usage.add_wait(i, self._since[i], self.now, 0.0)
    if is_silent or not up(i):  # It may fail right now.
      return self._begin(i)
    if self._form.kind == async_exchange.VISIT:
      return self._upload(i, bill)
    free = max(self._free[j] for j in self._who[i])
    if self._serial and free > self.now:
      return self._at(free, TRY, i)
    self._took[i] = seconds(self._link, bill)
    path = network.busiest(self._link, bill) / self._link.bytes_per_s
    for j, busy_s in zip(self._who[i], path, strict=True):
      self._free[j] = self.now + self._took[i]
      self.usage.add_transfer(j, self.now, busy_s)
    if self._form.kind == async_exchange.READ:
      self._run_round([i])
    self._at(self.now + self._took[i], DONE, i)

  def _upload(self, i: int, bill) -> None:
    up, down = timeline.send_receive_s(self._link, bill)
    self._took[i], self._down_s[i] = up + down + 2 * self._link.latency_s, down
    self.usage.add_transfer(i, self.now, up)
    self._server.add(self.now, ('up', i), up)

  def _lost(self, i: int) -> None:
    waiting = [entry for entry in self._queue if entry[1::2] == (TRY, i)]
    self._queue = [entry for entry in self._queue if entry not in waiting]
    heapq.heapify(self._queue)
    if waiting or self._server.drop(self.now, ('up', i)):
      self._begin(i)

  def _through(self) -> None:
    for way, i in self._server.pop(self.now):
      kind = ARRIVE if way == 'up' else DONE
      self._at(self.now + self._link.latency_s, kind, i)

  def _arrive(self, i: int) -> None:
    arrived, step = [i], lambda j: self._step[j]
    while self._queue and self._queue[0][:2] == (self.now, ARRIVE):
      arrived.append(heapq.heappop(self._queue)[3])
    arrived.sort(key=lambda j: (step(j), j))
    for who in [[*group] for _, group in itertools.groupby(arrived, step)]:
      self._run_round(who)
    for j in arrived:
      self.usage.add_transfer(j, self.now, self._down_s[j])
      self._server.add(self.now, ('down', j), self._down_s[j])

  def _done(self, i: int) -> None:
    if self._form.kind in (async_exchange.PUSH, async_exchange.MEET):
      self._run_round([i])
    self.usage.add_wait(i, self._since[i], self.now, self._took[i])
    self._begin(i)

  def _run_round(self, stepping: list[int]) -> None:
    first, visit = stepping[0], self._form.kind == async_exchange.VISIT
    who = stepping if visit else self._who[first]
    sent = self._runner.run_round(who, self._step[first])
    for i in stepping:
      version = self._version[-1 if visit else i]
      is_local = visit and silent(sent)  # A step without a visit.
      self.usage.add_staleness(0 if is_local else version - self._seen[i])
      self._step[i] += 1
    if visit and not silent(sent):
      self._version[-1] += 1
      for i in stepping:
        self._seen[i] = self._version[-1]
    if self._form.kind == async_exchange.MEET and not silent(sent):
      for j in who[1:]:
        self._version[j] += 1

  def to_json(self) -> dict[str, Any]:
    """Its state, for a checkpoint, without the runner's gradients."""
    return {
      **{key: vars(self)[key] for key in _KEPT},
      'hours': self.usage.to_json(),
      'pipes': self._server.to_json(),
    }

  def from_json(self, saved: dict[str, Any]) -> None:
    """Restores what `to_json` returned."""
    vars(self).update({key: saved[key] for key in _KEPT})
    self._queue = [tuple(entry) for entry in saved['_queue']]
    self.usage.from_json(saved['hours'])
    self._server.from_json(saved['pipes'])
