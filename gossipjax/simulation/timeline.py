"""Virtual time: what happens to workers, and the hours that they book.

A timeline (asynchronous.py, synchronous.py) decides who is next; what it costs
is told by the messages that a Player really exchanges.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gossipjax import network
from gossipjax.errors import UserError
from gossipjax.traffic import Traffic

MOST_SPANS = 60  # Per worker; for a picture of how it began.
KINDS = ('compute', 'wait', 'transfer')


class Player(Protocol):
  """What the workers do; `who` and bills are in the order of a round."""

  def start(self, worker: int, step: int) -> None:
    """Takes the gradient of a step of the worker's own, where it stands."""

  def price(self, who: Sequence[int], step: int) -> Traffic:
    """What `play` would send, with leaves [len(who)]; changes nothing."""

  def play(self, who: Sequence[int], step: int) -> Traffic:
    """Plays a round to which those came."""


class Stalled(UserError):
  """A synchronous round waited for somebody until the time-out.

  Attributes:
    time_s: when it was given up.
    worker: for whom.
  """

  def __init__(self, time_s: float, worker: int):
    super().__init__(
      f'Stopped at {time_s:.6g} virtual s: a round waited for worker '
      f'{worker} until cluster.timeout_s.'
    )
    self.time_s, self.worker = time_s, worker


class Hours:
  """What workers and links did with their time, since the start.

  Attributes:
    spent_s: per kind of KINDS, f64[workers].
    busy_s: f64[workers]; in which a worker's own link carried something.
    staleness: [sum, number, largest] since the last `take_staleness`.
    spans: (worker, kind, from_s, until_s), the first of each worker.
  """

  def __init__(self, workers: int):
    self.spent_s = {kind: np.zeros(workers) for kind in KINDS}
    self.busy_s = np.zeros(workers)
    self.staleness = [0, 0, 0]
    self.spans, self._room = [], [MOST_SPANS] * workers

  def spend(self, worker: int, kind: str, since: float, until: float) -> None:
    """Books an interval; one without length leaves no span."""
    self.spent_s[kind][worker] += until - since
    if until > since and self._room[worker]:
      self._room[worker] -= 1
      self.spans.append((worker, kind, since, until))

  def blocked(
    self, worker: int, since: float, until: float, transfer: float
  ) -> None:
    """Books a wait and the transfer at its end."""
    begin = max(since, until - transfer)
    self.spend(worker, 'wait', since, begin)
    self.spend(worker, 'transfer', begin, until)

  def stale(self, versions: int) -> None:
    """A gradient was used, so many versions late."""
    total, number, largest = self.staleness
    self.staleness = [total + versions, number + 1, max(largest, versions)]

  def take_staleness(self) -> tuple[float, int]:
    """Mean and largest since the last call."""
    total, number, largest = self.staleness
    self.staleness = [0, 0, 0]
    return total / max(1, number), largest

  def to_json(self) -> dict[str, Any]:
    """All of it."""
    return {
      'spent_s': {k: v.tolist() for k, v in self.spent_s.items()},
      'busy_s': self.busy_s.tolist(),
      'staleness': self.staleness,
      'spans': self.spans,
      'room': self._room,
    }

  def from_json(self, found: dict[str, Any]) -> None:
    """Goes on from there."""
    self.spent_s = {k: np.array(v) for k, v in found['spent_s'].items()}
    self.busy_s, self.staleness = np.array(found['busy_s']), found['staleness']
    self.spans, self._room = [*map(tuple, found['spans'])], found['room']


def silent(bill: Traffic) -> bool:
  """Whether nobody sends anything."""
  return not np.asarray(bill.bytes).any()


def seconds(link: network.Link, bill: Traffic) -> float:
  """Of a round on links that are free."""
  one = type(bill)(
    *(
      np.asarray(x)[:, None]
      for x in (
        bill.bytes,
        bill.received,
        bill.messages,
        bill.rounds,
        bill.path_bytes,
      )
    )
  )
  return float(network.seconds(link, one)[0])
