"""Plans the pilots that fit a time limit: strategies, rates and steps."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ml_collections import ConfigDict

from gossipjax.advice.halving import Round, survivors
from gossipjax.advice.ranking import Candidate

RATES = (1.0, 10**-0.5, 10**0.5)  # Factors on the config's learning rate.
# Bounds on the strategies to try, all-reduce included.
MAX_STRATEGIES, MIN_STRATEGIES = 12, 2
SLOWER = 1.5  # Assumed step time of a strategy here, over all-reduce's.
SEEDS = 2  # In the last round.


class Plan(NamedTuple):
  """The pilots to train.

  Attributes:
    names: of variants, all-reduce first.
    rates: factors on each variant's own learning rate.
    rounds: of successive halving.
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
  """Plans as many strategies, then rates, then steps as the time allows.

  Args:
    names: all-reduce, then the others, the most promising one first.
    full: steps of the config.
    seconds: the time limit of all pilots together.
    step_s: seconds of a step of all-reduce on this machine.
    begin_s: seconds of a pilot besides its steps, for loading and compiling.

  Returns:
    None if there is no time for the smallest plan.
  """
  least = least_steps(full)
  for count in range(min(len(names), MAX_STRATEGIES), MIN_STRATEGIES - 1, -1):
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
  """Counts the pilots, and their steps in units of a first-round pilot's."""
  second = survivors(count - 1) + 1  # All-reduce stays.
  third = (survivors(second - 1) + 1) * SEEDS
  pilots = count * rates + second + third
  return pilots, count * rates + 2 * second + 4 * third


def needed_s(
  full: int, step_s: float, begin_s: float, count: int = MIN_STRATEGIES
) -> float:
  """The seconds of the smallest plan for `count` strategies, at one rate."""
  pilots, steps = _work(min(count, MAX_STRATEGIES), 1)
  return pilots * begin_s + SLOWER * step_s * steps * (least_steps(full) + 1)


def candidates(
  plan: Plan, configs: Mapping[str, ConfigDict]
) -> Iterator[Candidate]:
  """Yields each variant at each learning rate, all-reduce first."""
  for name in plan.names:
    for factor in plan.rates:
      rate = configs[name].optimizer.learning_rate * factor
      yield Candidate(name, float(f'{rate:.3g}'))
