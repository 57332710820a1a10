"""How often a strategy never gets where all-reduce does, in whole trainings.

A pilot is too short to see whether a strategy gets to the target at all. Whole
trainings of other models tell how often it does not.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from gossipjax.advice.known_runs import Known


class Risk(NamedTuple):
  """What whole trainings say of a strategy.

  Attributes:
    missed: on how many tasks it never got to 99 % of all-reduce's best score.
    of: how many are known.
    near: a training of the same task and model that never got there.
  """

  missed: int = 0
  of: int = 0
  near: Known | None = None

  def after(self, learnt: float) -> float:
    """The probability that it misses on another task.

    By Laplace's rule of succession, which is a half where nothing is known;
    pilots rule it out for the part of the training that they have seen.

    Args:
      learnt: share of the untrained model's loss that pilots have lost.
    """
    if self.near:
      return 1.0
    left = min(1.0, max(0.0, 1 - learnt))
    return left * (self.missed + 1) / (self.of + 2)

  def __str__(self) -> str:
    if self.near:
      return f'in {self.near.table} ({self.near.place}) it never got there'
    if not self.of:
      return 'no whole training is kept that got there'
    return (
      f'in {self.missed} of {self.of} whole trainings that are kept it never '
      'got there'
    )


def of(known: Iterable[Known], near: Iterable[Known]) -> Risk:
  """The risk of a strategy.

  Args:
    known: its runs on any task.
    near: those on the same task and model.
  """
  ends = [run.steps for run in known if not math.isnan(run.steps)]
  against = [run for run in near if math.isinf(run.steps)]
  return Risk(sum(map(math.isinf, ends)), len(ends), next(iter(against), None))
