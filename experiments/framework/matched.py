"""Arguments of a method: the best ones, or those that send given bytes.

Bytes are those that move on the busiest link, where comparisons at equal bytes
are about the link, unless a claim counts others. The search runs at the
workload's own learning rate, on validation data.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from experiments.framework import best_rate, study, tried_rates, workloads
from experiments.framework.single_run import Result

BytesOf = Callable[[Result], float | None]  # Bytes of a step; None: diverged.
WITHIN = 0.05  # Of the wanted bytes.
TRIES = 8
WIDEST = 4.0  # Factor between two values.


class Search(NamedTuple):
  """How an argument decides about bytes.

  Attributes:
    part: value -> what the config takes, for example `strategy.trigger`.
    begin: the first value that is tried.
    power: bytes are about proportional to value**power.
  """

  part: Callable[[float], Any]
  begin: float
  power: float


def bytes_of(
  workload: str, config: ConfigDict, count: BytesOf = workloads.busiest_bytes
) -> study.Study:
  """The bytes of a step; None if the run diverged."""
  rate = config.optimizer.learning_rate
  asked = study.Ask(workload, best_rate.on_validation(config, rate))
  (run,) = yield [asked]
  return count(run)


def best_value(
  workload: str, configs: Mapping[float, ConfigDict]
) -> study.Study:
  """The value whose config scores best on validation data.

  Args:
    workload: of the configs.
    configs: by value, each at the workload's own learning rate.
  """
  asks = [
    study.Ask(workload, best_rate.on_validation(c, c.optimizer.learning_rate))
    for c in configs.values()
  ]
  runs = yield asks
  score = workloads.WORKLOADS[workload].score
  scores = {v: score(run) for v, run in zip(configs, runs, strict=True)}
  return tried_rates.best_of(scores)


def value_for(
  workload: str,
  config_at: Callable[[float], ConfigDict],
  begin: float,
  wanted: float,
  power: float,
  count: BytesOf = workloads.busiest_bytes,
) -> study.Study:
  """The value at which a method sends the wanted bytes.

  A secant search in logarithms, which stays between values that are known to
  send too much and too little.

  Args:
    workload: of the configs.
    config_at: value -> config.
    begin: first value.
    wanted: bytes of a step.
    power: bytes are about proportional to value**power, to begin with.
    count: the bytes of a run.

  Returns:
    The value that comes nearest, and its bytes over the wanted ones.
  """
  tried: dict[float, float] = {}
  value = begin
  for _ in range(TRIES):
    sent = yield from bytes_of(workload, config_at(value), count)
    tried[value] = (math.inf if sent is None else sent) / wanted
    if abs(tried[value] - 1) <= WITHIN:
      break
    value = float(f'{_next(tried, value, power):.4g}')
    if value in tried:
      break
  best = min(tried, key=lambda v: abs(math.log(max(tried[v], 1e-9))))
  return best, tried[best]


def _next(tried: dict[float, float], value: float, power: float) -> float:
  """Where the line through the last two points, in logarithms, is at 1."""
  slope = power
  if len(tried) > 1:
    before = [*tried][-2]
    rise = math.log(max(tried[value], 1e-9) / max(tried[before], 1e-9))
    found = rise / math.log(value / before)
    if found * power > 0:  # Else the two are within the noise.
      slope = found
  factor = max(tried[value], 1e-9) ** (-1 / slope)
  found = value * min(WIDEST, max(1 / WIDEST, factor))
  return _between(tried, found)


def _between(tried: dict[float, float], found: float) -> float:
  """`found`, or the middle if it is beyond the nearest values around 1."""
  more = [value for value, share in tried.items() if share > 1]
  fewer = [value for value, share in tried.items() if share < 1]
  pairs = itertools.product(more, fewer)
  ends = min(pairs, key=lambda p: abs(math.log(p[0] / p[1])), default=None)
  if ends is None or min(ends) < found < max(ends):
    return found
  return math.sqrt(ends[0] * ends[1])
