"""What timelines share: the runner interface, and time bookkeeping.

A timeline (events.py, rounds.py) selects the workers of the next round; the
cost of the round follows from the messages that a Runner exchanges.
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gossipjax import network
from gossipjax.errors import UserError
from gossipjax.traffic import Traffic

MOST_SPANS = 60  # Per worker; for a plot of the first steps.
KINDS = ('compute', 'wait', 'transfer')


class Runner(Protocol):
  """Runs the rounds that a timeline selects.

  `who` lists the workers that attend a round; traffic has leaves [len(who)],
  in the same order.
  """

  def start(self, worker: int, step: int) -> None:
    """Computes the gradient of the worker's own step at its parameters."""

  def round_traffic(self, who: Sequence[int], step: int) -> Traffic:
    """Returns what `run_round` would send; changes no worker."""

  def run_round(self, who: Sequence[int], step: int) -> Traffic:
    """Plays a round of these workers; returns what they sent."""


class FetchingRunner(Runner, Protocol):
  """A runner of rounds that some workers may miss."""

  def run_silent_round(self, who: Sequence[int], step: int) -> Traffic:
    """Plays a silent round in which all other workers are lost."""

  def fetch(self, worker: int, giver: int, dry_run: bool) -> Traffic:
    """Copies the giver's model unless `dry_run`; returns traffic of both."""


class Stalled(Exception):
  """A synchronous round waited for a worker until the time-out.

  Attributes:
    time_s: virtual seconds at which it gave up.
    worker: the one that it waited for.
  """

  def __init__(self, time_s: float, worker: int):
    super().__init__(
      f'Stopped at {time_s:.6g} virtual s: a round waited for worker '
      f'{worker} until cluster.timeout_s.'
    )
    self.time_s, self.worker = time_s, worker


def advance(now: float, time_s: float) -> float:
  """Returns `time_s`, a finite time at or after `now`.

  Raises:
    UserError: it is earlier, infinite or NaN, so that time would go back or
      stand still.
  """
  if not now <= time_s < math.inf:
    raise UserError(
      f'Virtual time cannot advance from {now:.6g} to {time_s:.6g} s; check '
      'the seconds of config.cluster and of the link.'
    )
  return time_s


def one_fewer(events: int, now: float) -> int:
  """Returns `events` - 1: events that may still pass without a used gradient.

  Raises:
    UserError: `events` is 0: virtual time stands still.
  """
  if not events:
    raise UserError(
      f'Virtual time stands still at {now:.6g} s: no worker uses a gradient; '
      'check config.cluster.'
    )
  return events - 1


class TimeUsage:
  """How workers and links spent their time since the start.

  Attributes:
    spent_s: seconds of each kind of KINDS, f64[workers].
    busy_s: seconds in which a worker's own link carries data, f64[workers],
      until the end of the transfers that have begun.
    staleness: [sum, number, largest] since the last `take_staleness`.
    spans: (worker, kind, from_s, until_s), the first MOST_SPANS of each
      worker.
  """

  def __init__(self, workers: int):
    self.spent_s = {kind: np.zeros(workers) for kind in KINDS}
    self.busy_s, self._busy_until = np.zeros(workers), np.zeros(workers)
    self.staleness = [0, 0, 0]
    self.spans, self._room = [], [MOST_SPANS] * workers

  def add(self, worker: int, kind: str, since: float, until: float) -> None:
    """Adds an interval; an empty one leaves no span."""
    self.spent_s[kind][worker] += until - since
    if until > since and self._room[worker]:
      self._room[worker] -= 1
      self.spans.append((worker, kind, since, until))

  def add_wait(
    self, worker: int, since: float, until: float, transfer: float
  ) -> None:
    """Adds a wait that ends with a transfer of `transfer` seconds."""
    begin = max(since, until - transfer)
    self.add(worker, 'wait', since, begin)
    self.add(worker, 'transfer', begin, until)

  def add_transfer(self, worker: int, since: float, seconds: float) -> None:
    """Adds a transfer on the worker's own link; it may overlap others."""
    before, end = self._busy_until[worker], since + seconds
    self.busy_s[worker] += max(0.0, end - max(since, before))
    self._busy_until[worker] = max(before, end)

  def add_round(
    self, who: list[int], link: network.Link, bill: Traffic
  ) -> None:
    """Adds a round of these workers, whose links carry nothing else."""
    self.busy_s[who] += network.busiest(link, bill) / link.bytes_per_s

  def busiest_s(self, now: float) -> float:
    """Seconds in which the busiest link has carried data until `now`; all
    transfers have begun by then."""
    return (self.busy_s - np.maximum(0, self._busy_until - now)).max()

  def add_staleness(self, versions: int) -> None:
    """Counts a gradient that was used `versions` updates late."""
    total, number, largest = self.staleness
    self.staleness = [total + versions, number + 1, max(largest, versions)]

  def take_staleness(self) -> tuple[float, int]:
    """Mean and largest staleness since the last call."""
    total, number, largest = self.staleness
    self.staleness = [0, 0, 0]
    return total / max(1, number), largest

  def to_record(self) -> dict[str, Any]:
    """Fields of a record, with the staleness since the last one."""
    stale, most = self.take_staleness()
    return {
      'staleness': stale,
      'most_stale': most,
      'compute_s': self.spent_s['compute'].tolist(),
      'waiting_s': self.spent_s['wait'].tolist(),
      'transfer_s': self.spent_s['transfer'].tolist(),
    }

  def to_json(self) -> dict[str, Any]:
    """Its state, for a checkpoint."""
    return {
      'spent_s': {k: v.tolist() for k, v in self.spent_s.items()},
      'busy_s': self.busy_s.tolist(),
      'busy_until': self._busy_until.tolist(),
      'staleness': self.staleness,
      'spans': self.spans,
      'room': self._room,
    }

  def from_json(self, saved: dict[str, Any]) -> None:
    """Restores what `to_json` returned."""
    self.spent_s = {k: np.array(v) for k, v in saved['spent_s'].items()}
    self.busy_s, self.staleness = np.array(saved['busy_s']), saved['staleness']
    # Checkpoints of older versions lack it.
    self._busy_until = np.array(saved.get('busy_until', self._busy_until))
    self.spans, self._room = [*map(tuple, saved['spans'])], saved['room']


def silent(bill: Traffic) -> bool:
  """Whether no worker sends anything."""
  return not np.asarray(bill.bytes).any()


def send_receive_s(link: network.Link, bill: Traffic) -> list[float]:
  """Seconds of the first worker's sent bytes, and of its received bytes."""
  byte_counts = (float(np.asarray(x)[0]) for x in (bill.bytes, bill.received))
  return [num_bytes / link.bytes_per_s for num_bytes in byte_counts]


def seconds(link: network.Link, bill: Traffic) -> float:
  """Seconds of a round on idle links."""
  counts: list[Any] = [np.asarray(x)[..., None] for x in bill.counts()]
  return float(network.seconds(link, Traffic(*counts))[0])
