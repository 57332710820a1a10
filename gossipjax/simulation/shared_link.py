"""A link that several transfers share."""

from typing import Any

_DONE = 1e-12  # Seconds; less than this is left by rounding.


class SharedLink:
  """Serves transfers one after the other, or all at once and more slowly."""

  def __init__(self, width: int, fair: bool):
    """A link without transfers.

    Args:
      width: transfers that it carries at full speed.
      fair: whether all share it; else the first `width` have it.
    """
    self._width, self._fair = width, fair
    self._now, self._left, self._busy_s = 0.0, [], 0.0

  def add(self, now: float, who: Any, seconds: float) -> None:
    """Begins a transfer that takes `seconds` when it is alone."""
    self._run(now)
    self._left.append([who, seconds])

  def busy_until(self, now: float) -> float:
    """Seconds of use, weighted by the used share of the width; `now` is at or
    before `next`."""
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
    """Removes the transfers that end at `now`, a time that `next` gave."""
    rates = self._rates()
    through = [
      self._now + left / rate <= now + _DONE if rate else False
      for (_, left), rate in zip(self._left, rates, strict=True)
    ]
    self._run(now)
    out = [who for (who, _), t in zip(self._left, through, strict=True) if t]
    self._left = [
      job for job, t in zip(self._left, through, strict=True) if not t
    ]
    return out

  def to_json(self) -> dict:
    """Its state, for a checkpoint."""
    return {'now': self._now, 'left': self._left, 'busy_s': self._busy_s}

  def from_json(self, found: dict) -> None:
    """Restores what `to_json` returned."""
    self._now, self._left = found['now'], found['left']
    self._busy_s = found['busy_s']

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
