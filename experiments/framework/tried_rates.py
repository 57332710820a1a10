"""The learning rates that are tried for a method, and which is best."""

from collections.abc import Sequence

RATE_FACTOR = 10**0.5  # Between two learning rates.
Curve = dict[float, float | None]  # Scores by rate; None if it diverged.


def around(rate: float, offsets: Sequence[int]) -> list[float]:
  """Returns rates on the grid through `rate`, rounded to three digits."""
  return [float(f'{rate * RATE_FACTOR**offset:.3g}') for offset in offsets]


def best_of(curve: Curve) -> float | None:
  """Returns the rate with the highest score; in a tie the first one tried."""
  known = {rate: score for rate, score in curve.items() if score is not None}
  return max(known, key=lambda rate: known[rate]) if known else None


def near_best(curve: Curve, tie: float) -> set[float]:
  """Returns the rates within `tie` of the best score; none if only the best."""
  best = max((s for s in curve.values() if s is not None), default=None)
  if not tie or best is None:
    return set()
  near = {r for r, s in curve.items() if s is not None and best - s <= tie}
  return near if len(near) > 1 else set()


def beyond(curve: Curve) -> list[float]:
  """Returns the next rate if the best is the lowest or the highest, or if all
  diverged (then a lower one); else []."""
  best, rates = best_of(curve), sorted(curve)
  if best is None or best == rates[0]:
    return around(rates[0], (-1,))
  return around(best, (1,)) if best == rates[-1] else []
