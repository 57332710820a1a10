"""The synchronous timeline: one round after the other.

All workers wait for each other, unless a round sends nothing: then each goes on
at its own time. With `first` below the number of workers, a round takes the
first `first` that are ready; late workers drop their gradient and fetch the
model, again if the next round begins before the fetch ends.
"""

import math
from typing import Any

from gossipjax import network
from gossipjax.errors import UserError
from gossipjax.simulation.compute_times import ComputeTimes
from gossipjax.simulation.timeline import (
  FetchingRunner,
  Stalled,
  TimeUsage,
  advance,
  seconds,
  silent,
)


class Synchronous:
  """All workers, in rounds.

  Attributes:
    now: virtual seconds of the slowest worker.
    rounds: number of rounds so far.
    usage: see timeline.py.
  """

  def __init__(
    self,
    compute_times: ComputeTimes,
    link: network.Link,
    runner: FetchingRunner,
    first: int = 0,
    timeout_s: float = math.inf,
  ):
    n = compute_times.workers
    self._compute_times, self._link, self._runner = compute_times, link, runner
    self._first, self._timeout_s = first or n, timeout_s
    self.now, self.rounds, self.usage = 0.0, 0, TimeUsage(n)
    self._clock = [0.0] * n  # When each worker is free.
    self._since = [0.0] * n  # When each began its completed gradient.
    self._behind, self._fetch_s = [False] * n, 0.0  # Missed the last round.
    if self._first < n:
      self._fetch_s = seconds(link, runner.fetch(0, 1, dry_run=True))

  @property
  def behind(self) -> set[int]:
    """Workers that have missed the last round and hold an older model."""
    lost = map(math.isinf, self._clock)  # They failed in silent rounds.
    pairs = zip(self._behind, lost, strict=True)
    return {i for i, flags in enumerate(pairs) if any(flags)}

  @property
  def utilisation(self) -> float:
    """Share of the time in which the busiest link carries data."""
    return float(self.usage.busy_s.max() / self.now) if self.now else 0.0

  def next(self) -> None:
    """Plays the next round.

    Raises:
      Stalled: it would wait beyond the time-out; no time has passed.
    """
    begin = self._begin()
    ready = [self._compute(i, at) for i, at in enumerate(begin)]
    if self._first == len(ready):
      everyone = [*range(self._first)]
      self._start(everyone)
      if silent(self._runner.round_traffic(everyone, self.rounds)):
        return self._run_silent_round(begin, ready)
    order, barrier = self._barrier(ready)
    who, late = sorted(order[: self._first]), order[self._first :]
    if barrier - ready[order[0]] > self._timeout_s:
      # After silent rounds, other workers may already be further.
      end = max(self.now, ready[order[0]] + self._timeout_s)
      self._waiting = begin, ready, end
      raise Stalled(end, order[self._first - 1])
    if late:
      self._fetch(begin, who, barrier)
      self._start(who)
    self._meet(who, begin, ready, barrier)
    for i in late:
      # A worker that was behind has computed only if its fetch has ended.
      if begin[i] < barrier or not self._behind[i]:
        self._book(i, begin[i], ready[i])
        self._clock[i], self._behind[i] = ready[i], True
      if self._clock[i] < self.now:
        self.usage.add(i, 'wait', self._clock[i], self.now)
        self._clock[i] = self.now

  def _begin(self) -> list[float]:
    """When each worker begins to compute; infinite if it failed for good.

    One worker's link serves all that fetch the model, one after the other.
    """
    begin, free = [*self._clock], self.now
    for i in sorted(self.behind, key=lambda i: (begin[i], i)):
      begin[i] = free = max(begin[i], free) + self._fetch_s
    return begin

  def _compute(self, i: int, at: float) -> float:
    done, began = self._compute_times.finished(i, self.rounds, at)
    self._since[i] = began
    return done

  def _barrier(self, ready: list[float]) -> tuple[list[int], float]:
    """The order in which workers are ready, and when the round begins; changes
    `ready` of a worker that fails while it waits and computes again."""
    while True:
      order = sorted(range(len(ready)), key=lambda i: (ready[i], i))
      barrier, least = ready[order[self._first - 1]], ready[order[0]]
      until = min(barrier, least + self._timeout_s)
      failed = {
        i: back
        for i in order[: self._first]
        if (back := self._compute_times.failed(i, ready[i], until))
      }
      if not failed:
        return order, barrier
      for i, back in failed.items():
        ready[i] = self._compute(i, back)

  def _start(self, who: list[int]) -> None:
    for i in who:
      self._runner.start(i, self.rounds)

  def _book(self, i: int, begin: float, ready: float) -> None:
    if math.isfinite(ready):
      fetch_s = self._fetch_s * self._behind[i]
      self.usage.add_wait(i, self._clock[i], begin, fetch_s)
      self.usage.add(i, 'compute', self._since[i], ready)

  def _run_silent_round(self, begin: list[float], ready: list[float]) -> None:
    alive = [i for i, at in enumerate(ready) if math.isfinite(at)]
    self._runner.run_silent_round(alive, self.rounds)
    for i in alive:
      self._book(i, begin[i], ready[i])
    # `ready` is infinite for a worker that has failed for good.
    self.rounds, self._clock = self.rounds + 1, ready
    self.now = max(self.now, *(ready[i] for i in alive))

  def give_up(self) -> None:
    """Advances time to the time-out of the round that stalled."""
    begin, ready, self.now = self._waiting
    for i in (i for i, at in enumerate(ready) if at <= self.now):
      self._book(i, begin[i], ready[i])
      self.usage.add(i, 'wait', ready[i], self.now)

  def _fetch(self, begin: list[float], who: list[int], barrier: float) -> None:
    givers = [i for i in who if not self._behind[i]] or [
      i for i, behind in enumerate(self._behind) if not behind
    ]
    for i, behind in enumerate(self._behind):
      if behind and (i in who or begin[i] < barrier):
        bill = self._runner.fetch(i, givers[0], dry_run=False)
        self.usage.add_round([i, givers[0]], self._link, bill)

  def _meet(
    self, who: list[int], begin: list[float], ready: list[float], barrier: float
  ) -> None:
    bill = self._runner.run_round(who, self.rounds)
    if silent(bill):
      raise UserError(
        'cluster.first needs a strategy that exchanges in every '
        'step, such as all_reduce.'
      )
    end = advance(self.now, barrier + seconds(self._link, bill))
    self.usage.add_round(who, self._link, bill)
    for i in who:
      self._book(i, begin[i], ready[i])
      self.usage.add(i, 'wait', ready[i], barrier)
      self.usage.add(i, 'transfer', barrier, end)
      self.usage.add_staleness(0)
      self._clock[i], self._behind[i] = end, False
    self.rounds, self.now = self.rounds + 1, end

  def to_json(self) -> dict[str, Any]:
    """Its state, for a checkpoint."""
    return {
      'now': self.now,
      'rounds': self.rounds,
      'clock': self._clock,
      'behind': self._behind,
      'hours': self.usage.to_json(),
    }

  def from_json(self, saved: dict[str, Any]) -> None:
    """Restores what `to_json` returned."""
    self.now, self.rounds = saved['now'], saved['rounds']
    self._clock, self._behind = saved['clock'], saved['behind']
    self.usage.from_json(saved['hours'])
