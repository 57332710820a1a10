"""Regret: extra time of a rule's pick over the best strategy in hindsight."""

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from experiments.framework import claim, intervals, seed_statistics
from experiments.framework.seed_statistics import INSIDE

CELL = 'workload', 'link'
SECONDS = 'seconds to the target, seed '
Seconds = Mapping[str, Sequence[float]]  # To the target: by strategy and seed.


class AdviceCase(NamedTuple):
  """A workload on a link.

  Attributes:
    cell: the workload and the link, by the columns of CELL.
    seconds: to the target, of all strategies, with seeds in the same order.
    picks: rule -> the strategy that it picks.
    unsure: strategies whose best learning rate is at the edge of those tried.
  """

  cell: Mapping[str, Any]
  seconds: Seconds
  picks: Mapping[str, str]
  unsure: Collection[str]

  def table(self, seeds: int) -> list[dict[str, Any]]:
    """Returns its seconds: a row per strategy, a column per seed."""
    return [
      self.cell
      | {'strategy': name, INSIDE: name not in self.unsure}
      | {f'{SECONDS}{seed}': None for seed in range(seeds)}
      | {f'{SECONDS}{seed}': s for seed, s in enumerate(values)}
      for name, values in self.seconds.items()
    ]


def read(
  rows: claim.Rows, seconds: claim.Rows, rules: Sequence[str]
) -> list[AdviceCase]:
  """Restores cases from rows with a column 'RULE: strategy' for each rule.

  Args:
    rows: rows that also have the columns of CELL.
    seconds: the rows of `AdviceCase.table` of these cases.
    rules: names of the rules.
  """
  found = []
  for row in rows:
    cell = {key: row[key] for key in CELL}
    by_strategy = {
      s['strategy']: s for s in seconds if cell.items() <= s.items()
    }
    values = lambda s: [v for key, v in s.items() if key.startswith(SECONDS)]
    known_seconds = lambda s: [
      second for second in values(s) if second is not None
    ]
    found.append(
      AdviceCase(
        cell,
        {name: known_seconds(s) for name, s in by_strategy.items()},
        {rule: row[f'{rule}: strategy'] for rule in rules},
        [name for name, s in by_strategy.items() if not s[INSIDE]],
      )
    )
  return found


def seeds_of(cases: Sequence[AdviceCase]) -> int:
  """Returns the smallest number of seeds of any strategy."""
  return min(len(each) for case in cases for each in case.seconds.values())


def mean(
  cases: Sequence[AdviceCase], without: int | None = None
) -> dict[str, float]:
  """Returns each rule's mean regret; a seed can be left out. {} of no cases."""

  def one(case: AdviceCase, rule: str) -> float:
    seconds = {
      name: [s for seed, s in enumerate(each) if seed != without]
      for name, each in case.seconds.items()
    }
    return regret(seconds, case.picks[rule])

  rules = cases[0].picks if cases else ()
  return {
    rule: statistics.fmean(one(case, rule) for case in cases) for rule in rules
  }


def regret(seconds: Seconds, pick: str) -> float:
  """Returns how much longer a pick takes than the fastest strategy: 0.1 is
  10 %."""
  mean = {method: statistics.fmean(each) for method, each in seconds.items()}
  return mean[pick] / min(mean.values()) - 1


def is_below(goal: float, case: AdviceCase, rule: str) -> bool | None:
  """Whether a rule has less regret than a goal; None if the seeds cannot tell.

  As the fastest strategy is uncertain, too, the pick is compared with every
  other strategy. The answer is False if the pick is surely behind one of them
  by at least the goal, True if it surely is not so behind any of them.
  """
  pick, cases = case.picks[rule], []
  rivals = case.seconds.keys() - {pick}
  for rival in rivals:
    mine, theirs = case.seconds[pick], case.seconds[rival]
    found, error = seed_statistics.ratio(mine, theirs)
    sure = not {pick, rival} & {*case.unsure}
    arguments = 1 + goal, found, error if sure else None, len(mine)
    if intervals.at_least(
      *arguments, tests=len(rivals)
    ):  # One of many decides.
      return False
    cases.append(intervals.is_below(*arguments))
  return all(cases) or None


def jackknife(of: Callable[[int], float], seeds: int) -> float:
  """Returns the standard error of a statistic that is not a mean over seeds.

  Tukey, Bias and confidence in not-quite large samples, 1958.

  Args:
    of: index of a seed -> the statistic without that seed.
    seeds: number of seeds.
  """
  values = [of(seed) for seed in range(seeds)]
  return math.sqrt((seeds - 1) * statistics.pvariance(values))


def most_error(cases: Sequence[AdviceCase]) -> float:
  """The largest standard error of the rules' mean regrets."""
  of = lambda rule: lambda seed: mean(cases, seed)[rule]
  return max(jackknife(of(rule), seeds_of(cases)) for rule in cases[0].picks)


def lead(cases: Sequence[AdviceCase], share: float) -> tuple[float, float]:
  """Returns how far the first rule's mean regret is below `share` times that of
  the best other rule, and the standard error of this difference."""

  def without(seed: int | None) -> float:
    mine, *others = mean(cases, seed).values()
    return share * min(others) - mine

  return without(None), jackknife(without, seeds_of(cases))
