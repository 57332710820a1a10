"""The probability that a strategy misses the target, by known full trainings.

The target is a fraction of the best score of all-reduce, see known_file.

A pilot is too short to show it: a strategy that leads after a quarter of the
steps often misses the target, and one that lags often reaches it, see
`experiments/advice_quality.py`.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gossipjax.advice import known_runs
from gossipjax.advice.known_runs import Known

PRIOR = 2  # Weight of a wider group's estimate, in trainings of the next.


class Group(NamedTuple):
  """Known full-length trainings of a strategy.

  Attributes:
    what: the group in words.
    missed: how many of the group missed the target; a comparison counts by the
      fraction of its seeds that did.
    of: how many there are, comparisons or seeds.
    relative_steps: steps to the target over all-reduce's, of those that reached
      it; NaN if none did.
  """

  what: str
  missed: float
  of: int
  relative_steps: float


class Risk(NamedTuple):
  """What known trainings say about a strategy's chance to miss the target.

  Attributes:
    groups: the widest first; the last one has the same training as the config.
  """

  groups: Sequence[Group] = ()

  @property
  def known(self) -> list[Group]:
    """The groups that have trainings."""
    return [group for group in self.groups if group.of]

  @property
  def share(self) -> float:
    """The probability that the strategy misses the target.

    p starts at 0.5; from the widest group to the narrowest it becomes
    (missed + PRIOR p) / (of + PRIOR). With one group that is Laplace's rule of
    succession.
    """
    found = 0.5
    for group in self.groups:
      found = (group.missed + PRIOR * found) / (group.of + PRIOR)
    return found

  @property
  def as_text(self) -> str:
    """The probability in words."""
    return f'{100 * self.share:.0f} %' + ' (assumed)' * (not self.known)

  @property
  def of_the_same(self) -> bool:
    """Whether the group of the same training as the config has any."""
    return bool(self.groups) and self.groups[-1].of > 0

  @property
  def relative_steps(self) -> float:
    """Steps to the target over all-reduce's, if it is reached.

    They are those of the narrowest group in which any training reached it; NaN
    if there is none.
    """
    each = [group.relative_steps for group in self.groups]
    known = [steps for steps in each if not math.isnan(steps)]
    return known[-1] if known else math.nan

  def expected(self, arrives: float, whole: float, dense: float) -> float:
    """The expected cost until the target, in the unit of the arguments.

    A training that misses the target is lost, and all-reduce is trained then.

    Args:
      arrives: cost until the target if it is reached.
      whole: cost of the whole training.
      dense: cost of all-reduce until the target.
    """
    return (1 - self.share) * arrives + self.share * (whole + dense)

  def __str__(self) -> str:
    if not self.known:
      return (
        'No known training is like it; the probability of missing the target '
        'is taken to be 50 %.'
      )
    shares = ', '.join(
      f'{100 * g.missed / g.of:.0f} % {g.what}' for g in self.known
    )
    text = f'Kept trainings that missed the target: {shares}.'
    if math.isnan(self.relative_steps):
      return text
    steps = f'{self.relative_steps:.3g} times the steps of all-reduce'
    return f'{text} Those that reach it need {steps}.'


def of(known: Iterable[Known], config: Mapping[str, Any]) -> Risk:
  """Estimates the risk of a strategy for a config.

  Args:
    known: runs of the strategy, on any task.
    config: what the strategy is to train.
  """
  judged = [run for run in known if not math.isnan(run.missed)]
  kind = known_runs.family(known_runs.identity(config).model)
  alike = [r for r in judged if kind and known_runs.family(r.model) == kind]
  near = [r for r in judged if known_runs.is_near(r, config)]
  training = known_runs.training(known_runs.identity(config))
  tables, similar = list(_by_table(judged)), list(_by_table(alike))
  return Risk(
    (
      _of_tables(f'in {_comparisons(tables)}', tables),
      _of_tables(f'in {_comparisons(similar)} with a {kind}', similar),
      _of_seeds(f'of {training}', near),
    )
  )


def _by_table(runs: Sequence[Known]) -> Iterator[list[Known]]:
  """Yields the runs of each comparison; a table has one for each split."""
  for key in dict.fromkeys((run.table, run.split) for run in runs):
    yield [run for run in runs if (run.table, run.split) == key]


def _comparisons(tables: Sequence[Any]) -> str:
  return '1 comparison' if len(tables) == 1 else f'{len(tables)} comparisons'


def _of_tables(what: str, tables: Sequence[Sequence[Known]]) -> Group:
  """Counts a comparison once, as tasks differ more than settings or seeds."""
  missed = [statistics.fmean(r.missed for r in runs) for runs in tables]
  known = [s for runs in tables if (s := _steps(runs)) is not None]
  steps = statistics.median(known) if known else math.nan
  return Group(what, sum(missed), len(tables), steps)


def _of_seeds(what: str, runs: Sequence[Known]) -> Group:
  steps = _steps(runs)
  return Group(
    what,
    sum(run.missed * run.seeds for run in runs),
    sum(run.seeds for run in runs),
    math.nan if steps is None else steps,
  )


def _steps(runs: Sequence[Known]) -> float | None:
  """Mean relative steps of runs that reach the target; None if none does."""
  ratios = [run.relative_steps for run in runs]
  finite = [steps for steps in ratios if math.isfinite(steps)]
  return statistics.fmean(finite) if finite else None
