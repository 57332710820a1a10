"""A link that several transfers share, and a server's two-way link."""

from typing import Any

_DONE = 1e-12  # Seconds; a smaller rest is a rounding error.


class SharedLink:
  """Serves transfers one after the other, or all at once and more slowly."""

  def __init__(self, width: int, fair: bool):
    """A link without transfers.

    Args:
      width: number of transfers that it carries at full speed.
      fair: whether all transfers share it equally; if False, the first `width`
        use it and the others wait.
    """
    self._width, self._fair = width, fair
    self._now, self._left, self._busy_s = 0.0, [], 0.0

  def add(self, now: float, who: Any, seconds: float) -> None:
    """Begins a transfer that takes `seconds` when it is alone."""
    self._run(now)
    self._left.append([who, seconds])

  def drop(self, now: float, who: Any) -> bool:
    """Removes a transfer that still waits in the queue; returns whether there
    was one. A transfer that has begun continues."""
    self._run(now)
    begun, left = [rate > 0 for rate in self._rates()], self._left
    # A checkpoint turns tuples into lists.
    self._left = [
      job
      for job, runs in zip(left, begun, strict=True)
      if runs or tuple(job[0]) != who
    ]
    return len(self._left) < len(left)

  def busy_until(self, now: float) -> float:
    """Seconds of use until `now`, weighted by the used share of the width;
    `now` must not be after `next()`."""
    return self._busy_s + (now - self._now) * sum(self._rates()) / self._width

  def next(self) -> float:
    """When the next transfer ends; infinite if there is none."""
    rates = self._rates()
    return min(
      (
        self._now + left / rate
        for (_, left), rate in zip(self._left, rates, strict=True)
        if rate
      ),
      default=float('inf'),
    )

  def pop(self, now: float) -> list[Any]:
    """Removes and returns the transfers that end at `now`, from `next()`."""
    rates = self._rates()
    done = [
      self._now + left / rate <= now + _DONE if rate else False
      for (_, left), rate in zip(self._left, rates, strict=True)
    ]
    self._run(now)
    ended = [who for (who, _), t in zip(self._left, done, strict=True) if t]
    self._left = [job for job, t in zip(self._left, done, strict=True) if not t]
    return ended

  def to_json(self) -> dict:
    """Its state, for a checkpoint."""
    return {'now': self._now, 'left': self._left, 'busy_s': self._busy_s}

  def from_json(self, saved: dict) -> None:
    """Restores what `to_json` returned."""
    self._now, self._left = saved['now'], saved['left']
    self._busy_s = saved['busy_s']

  def _rates(self) -> list[float]:
    n = len(self._left)
    if self._fair:
      return [min(1.0, self._width / n)] * n if n else []
    return [1.0 if k < self._width else 0.0 for k in range(n)]

  def _run(self, now: float) -> None:
    rates, self._busy_s = self._rates(), self.busy_until(now)
    for job, rate in zip(self._left, rates, strict=True):
      job[1] = max(0.0, job[1] - (now - self._now) * rate)
    self._now = now


class ServerLink:
  """A server's link, for transfers ('up', worker) and ('down', worker).

  With half duplex both directions share one link.
  """

  def __init__(self, shards: int, fair: bool, full_duplex: bool):
    up = SharedLink(shards, fair)
    self._ways = [up, SharedLink(shards, fair) if full_duplex else up]

  def add(self, now: float, who: tuple[str, int], seconds: float) -> None:
    """See `SharedLink`, also for the other methods."""
    self._ways[who[0] == 'down'].add(now, who, seconds)

  def drop(self, now: float, who: tuple[str, int]) -> bool:
    return self._ways[who[0] == 'down'].drop(now, who)

  def busy_until(self, now: float) -> float:
    """Of the busier direction."""
    return max(way.busy_until(now) for way in self._ways)

  def next(self) -> float:
    return min(way.next() for way in self._ways)

  def pop(self, now: float) -> list[tuple[str, int]]:
    """Removes transfers of one direction that end at `now`; the next call
    removes those of the other direction that end at the same time."""
    return min(self._ways, key=SharedLink.next).pop(now)

  def to_json(self) -> list[dict]:
    return [way.to_json() for way in self._ways]

  def from_json(self, saved: list[dict]) -> None:
    for way, state in zip(self._ways, saved, strict=True):
      way.from_json(state)
