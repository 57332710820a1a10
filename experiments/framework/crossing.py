"""Where a curve reaches a goal."""

from collections.abc import Iterable

Point = tuple[float, float]  # Steps or seconds, and a score.


def crossing(
  points: Iterable[Point],
  goal: float,
  is_loss: bool = False,
  before: Point | None = None,
) -> float | None:
  """Steps or seconds at which scores are first as good as a goal.

  Between two points on the straight line; None if they never are.

  Args:
    points: of the curve, in order.
    goal: a score.
    is_loss: whether less is better.
    before: where the curve begins; None is its first point.
  """
  for now in points:
    if now[1] <= goal if is_loss else now[1] >= goal:
      if before is None:
        return now[0]
      share = (goal - before[1]) / (now[1] - before[1])
      return before[0] + share * (now[0] - before[0])
    before = now
  return None
