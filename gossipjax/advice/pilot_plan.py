"""What pilots a time allows: strategies, learning rates and steps."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ml_collections import ConfigDict

from gossipjax.advice.halving import Round, survivors
from gossipjax.advice.ranking import Candidate

RATES = (1.0, 10**-0.5, 10**0.5)  # Times the config's.
MOST, LEAST = 12, 2  # Strategies that are tried, all-reduce among them.
SLOWER = 1.5  # A step of another strategy on this machine, over all-reduce's.
SEEDS = 2  # Of the last round.


class Plan(NamedTuple):
  """What is tried.

  Attributes:
    names: of variants, all-reduce first.
    rates: learning rates, times each variant's own.
    rounds: of the halving.
  """

  names: list[str]
  rates: list[float]
  rounds: list[Round]


def least_steps(full: int) -> int:
  """The fewest steps of a pilot that still inform about a full training."""
  return min(full, max(20, full // 20))


def planned(
  names: Sequence[str], full: int, seconds: float, step_s: float, begin_s: float
) -> Plan | None:
  """As many strategies, rates and steps as the time allows.

  Args:
    names: the most promising first, after all-reduce.
    full: steps of the config.
    seconds: that all pilots may take.
    step_s: of a step here.
    begin_s: of a pilot besides its steps: loading, compiling.

  Returns:
    None if the time allows none.
  """
  least = least_steps(full)
  for count in range(min(len(names), MOST), LEAST - 1, -1):
    for rates in (len(RATES), 1):
      pilots, steps = _work(count, rates)
      first = int((seconds - pilots * begin_s) / (SLOWER * step_s * steps))
      if first >= least:
        first = min(first, max(least, full // 4))
        rounds = [
          Round(first, 1),
          Round(min(2 * first, full), 1),
          Round(min(4 * first, full), SEEDS),
        ]
        return Plan(list(names[:count]), list(RATES[:rates]), rounds)
  return None


def _work(count: int, rates: int) -> tuple[int, int]:
  """Pilots of all rounds, and their steps over those of the first round."""
  second = survivors(count - 1) + 1  # All-reduce stays.
  third = (survivors(second - 1) + 1) * SEEDS
  pilots = count * rates + second + third
  return pilots, count * rates + 2 * second + 4 * third


def needed_s(
  full: int, step_s: float, begin_s: float, count: int = LEAST
) -> float:
  """Seconds of the least plan for so many strategies, at one rate."""
  pilots, steps = _work(min(count, MOST), 1)
  return pilots * begin_s + SLOWER * step_s * steps * (least_steps(full) + 1)


def candidates(
  plan: Plan, configs: Mapping[str, ConfigDict]
) -> Iterator[Candidate]:
  """Each variant at each rate, those of all-reduce first."""
  for name in plan.names:
    for factor in plan.rates:
      rate = configs[name].optimizer.learning_rate * factor
      yield Candidate(name, float(f'{rate:.3g}'))
