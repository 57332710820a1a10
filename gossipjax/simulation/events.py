"""Nobody waits for anybody: events in the order of their time.

A worker takes a gradient where it stands, is done after its own time, then
exchanges with those it drew and goes on. While its exchange lasts it is idle
(a blocking send or receive); those it drew are not disturbed, only their links.
"""

import heapq
from typing import Any

import numpy as np

from gossipjax import async_exchange, network
from gossipjax.aggregator import AsyncExchange
from gossipjax.simulation.compute_times import ComputeTimes
from gossipjax.simulation.shared_link import SharedLink
from gossipjax.simulation.timeline import Hours, Player, seconds, silent

# At one time, what ends comes first and who arrives at a server comes last.
DONE, BEGIN, READY, TRY, ARRIVE = range(5)


class Asynchronous:
  """Attributes:
  now: virtual seconds.
  rounds: so many gradients per worker were used, on average.
  hours: see timeline.py.
  """

  def __init__(
    self,
    compute_times: ComputeTimes,
    link: network.Link,
    form: AsyncExchange,
    player: Player,
    fair: bool = False,
    shards: int = 1,
    serial: bool = True,
  ):
    n = compute_times.workers
    self._compute_times, self._link, self._form, self._player = (
      compute_times,
      link,
      form,
      player,
    )
    self._serial, self.now, self.hours = serial, 0.0, Hours(n)
    self._queue = [(0.0, BEGIN, 0.0, i) for i in range(n)]
    self._step, self._since = [0] * n, [0.0] * n  # Of each, its own.
    self._who = [[i] for i in range(n)]  # Who comes to the round of each.
    self._took = [0.0] * n  # Seconds of its exchange on free links.
    self._down_s = [0.0] * n  # Of these, on the way back from a server.
    self._free = [0.0] * n  # When the link of each is.
    self._seen, self._version = [0] * n, [0] * (n + 1)  # The last: a server.
    up = SharedLink(shards, fair)
    self._pipes = [up, SharedLink(shards, fair) if link.full_duplex else up]

  @property
  def rounds(self) -> float:
    return sum(self._step) / len(self._step)

  @property
  def utilisation(self) -> float:
    """The busiest link's share of the time."""
    busy = max(self.hours.busy_s.max(), *(p.busy_s for p in self._pipes))
    return float(busy / self.now) if self.now else 0.0

  def next(self) -> None:
    """Goes on until at least one more gradient is used."""
    before = sum(self._step)
    while sum(self._step) == before:
      at = [pipe.next() for pipe in self._pipes]
      if not self._queue or (min(at), ARRIVE) <= self._queue[0][:2]:
        self.now = min(at)
        self._through(at.index(self.now))
        continue
      self.now, kind, _, worker = heapq.heappop(self._queue)
      (self._done, self._begin, self._ready, self._try, self._arrive)[kind](
        worker
      )

  def _at(self, time: float, kind: int, worker: int) -> None:
    heapq.heappush(self._queue, (time, kind, self._since[worker], worker))

  def _begin(self, i: int) -> None:
    self._since[i] = self.now
    done, back = self._compute_times.attempt(i, self._step[i], self.now)
    if back > self.now:  # Lost, if it was begun at all.
      if np.isfinite(back):
        self._at(back, BEGIN, i)
      return
    if self._form.way != async_exchange.VISIT:
      self._seen[i] = self._version[i]
    self._player.start(i, self._step[i])
    self._at(done, READY, i)

  def _ready(self, i: int) -> None:
    self.hours.spend(i, 'compute', self._since[i], self.now)
    self._since[i] = self.now
    drawn = self._form.draw(
      i, self._compute_times.rng(i, self._step[i], what=1)
    )
    self._who[i] = [
      i,
      *(
        j
        for j in drawn
        if j != i and self._compute_times.back(j, self.now) == self.now
      ),
    ]
    self._try(i)

  def _try(self, i: int) -> None:
    bill = self._player.price(self._who[i], self._step[i])
    if silent(bill):
      self._play([i])
      self.hours.blocked(i, self._since[i], self.now, 0.0)
      return self._begin(i)
    if self._form.way == async_exchange.VISIT:
      return self._upload(i, bill)
    free = max(self._free[j] for j in self._who[i])
    if self._serial and free > self.now:
      return self._at(free, TRY, i)
    self._took[i] = seconds(self._link, bill)
    path = network.busiest(self._link, bill) / self._link.bytes_per_s
    for j, busy_s in zip(self._who[i], path, strict=True):
      self._free[j] = self.now + self._took[i]
      self.hours.busy_s[j] += busy_s
    if self._form.way == async_exchange.READ:
      self._play([i])
    self._at(self.now + self._took[i], DONE, i)

  def _upload(self, i: int, bill) -> None:
    up, down = (
      float(np.asarray(x)[0]) / self._link.bytes_per_s
      for x in (bill.bytes, bill.received)
    )
    self._took[i] = up + down + 2 * self._link.latency_s
    self._down_s[i] = down
    self._pipes[0].add(self.now, ('up', i), up)

  def _through(self, pipe: int) -> None:
    for way, i in self._pipes[pipe].pop(self.now):
      self._at(
        self.now + self._link.latency_s, ARRIVE if way == 'up' else DONE, i
      )

  def _arrive(self, i: int) -> None:
    together = [i]
    while (
      self._queue
      and self._queue[0][:2] == (self.now, ARRIVE)
      and (self._step[self._queue[0][3]] == self._step[i])
    ):
      together.append(heapq.heappop(self._queue)[3])
    together.sort()
    self._play(together)
    for j in together:
      self._pipes[1].add(self.now, ('down', j), self._down_s[j])

  def _done(self, i: int) -> None:
    if self._form.way in (async_exchange.PUSH, async_exchange.MEET):
      self._play([i])
    self.hours.blocked(i, self._since[i], self.now, self._took[i])
    self._begin(i)

  def _play(self, stepping: list[int]) -> None:
    first = stepping[0]
    visit = self._form.way == async_exchange.VISIT
    who = stepping if visit else self._who[first]
    sent = self._player.play(who, self._step[first])
    for i in stepping:
      version = self._version[-1 if visit else i]
      self.hours.stale(version - self._seen[i])
      self._step[i] += 1
    if visit and not silent(sent):
      self._version[-1] += 1
      for i in stepping:
        self._seen[i] = self._version[-1]
    if self._form.way == async_exchange.MEET and not silent(sent):
      for j in who[1:]:
        self._version[j] += 1

  def to_json(self) -> dict[str, Any]:
    """Where it stands, but for the gradients that the player holds."""
    kept = {k: v for k, v in vars(self).items() if k in _KEPT}
    return {
      **kept,
      'now': self.now,
      'hours': self.hours.to_json(),
      'pipes': [pipe.to_json() for pipe in self._pipes],
    }

  def from_json(self, found: dict[str, Any]) -> None:
    """Goes on from there."""
    vars(self).update({key: found[key] for key in _KEPT})
    self._queue = [tuple(entry) for entry in found['_queue']]
    self.now = found['now']
    self.hours.from_json(found['hours'])
    for pipe, state in zip(self._pipes, found['pipes'], strict=True):
      pipe.from_json(state)


_KEPT = (
  '_queue',
  '_step',
  '_since',
  '_who',
  '_took',
  '_down_s',
  '_free',
  '_seen',
  '_version',
)
