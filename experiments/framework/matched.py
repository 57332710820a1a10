"""Studies that find a method's best argument, or one that sends given bytes.

By default bytes are those on the busiest link, because comparisons at equal
bytes are about the link; a claim may count others. All runs use the learning
rate of their config, on validation data.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from experiments.framework import best_rate, study, tried_rates, workloads
from experiments.framework.result_store import ResultStore
from experiments.framework.single_run import Result

BytesOf = Callable[[Result], float | None]  # Bytes of a step; None: diverged.
WITHIN = 0.05  # Accepted deviation, as a share of the wanted bytes.
TRIES = 8
WIDEST = 4.0  # Largest factor between two successive values.


class Search(NamedTuple):
  """How the bytes of a method depend on an argument.

  Attributes:
    part: value -> part of the config, for example `strategy.trigger`.
    begin: the first value that is tried.
    power: bytes are about proportional to value**power.
  """

  part: Callable[[float], Any]
  begin: float
  power: float


def bytes_of(
  workload: str, config: ConfigDict, count: BytesOf = workloads.busiest_bytes
) -> study.Study:
  """The study of a config's bytes per step; None if the run diverged."""
  rate = config.optimizer.learning_rate
  request = study.RunRequest(workload, best_rate.on_validation(config, rate))
  (run,) = yield [request]
  return count(run)


def best_value(
  workload: str, configs: Mapping[float, ConfigDict]
) -> study.Study:
  """The study of which value's config scores best on validation data.

  Args:
    workload: of the configs.
    configs: by value, each at the workload's own learning rate.
  """
  runs = yield _requests(workload, configs)
  score = workloads.WORKLOADS[workload].score
  scores = {v: score(run) for v, run in zip(configs, runs, strict=True)}
  return tried_rates.best_of(scores)


def scores(
  workload: str, configs: Mapping[float, ConfigDict], kept: ResultStore
) -> dict[float, float | None]:
  """The scores among which `best_value` chooses; those that are kept so far."""
  score = workloads.WORKLOADS[workload].score
  requests = _requests(workload, configs)
  lines = [study.line_of(request, kept) for request in requests]
  return {
    value: score(line['result'])
    for value, line in zip(configs, lines, strict=True)
    if line
  }


def _requests(
  workload: str, configs: Mapping[float, ConfigDict]
) -> list[study.RunRequest]:
  """A run of each config on validation data, at the workload's own rate."""
  return [
    study.RunRequest(
      workload, best_rate.on_validation(c, c.optimizer.learning_rate)
    )
    for c in configs.values()
  ]


def value_for(
  workload: str,
  config_at: Callable[[float], ConfigDict],
  begin: float,
  wanted: float,
  power: float,
  count: BytesOf = workloads.busiest_bytes,
) -> study.Study:
  """The study of the value at which a method sends the wanted bytes.

  It is a secant search on logarithms, which stays between values that are known
  to send too many and too few bytes.

  Args:
    workload: of the configs.
    config_at: value -> config.
    begin: first value.
    wanted: bytes per step.
    power: first guess: bytes are proportional to value**power.
    count: result of a run -> its bytes per step.

  Returns:
    The value with the closest bytes, and these bytes over the wanted ones.
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
  """Returns where a log-log line through the last two points reaches 1."""
  slope = power
  last = [*tried][-2:]
  if len(last) == 2 and all(math.isfinite(tried[v]) for v in last):
    before, _ = last
    rise = math.log(max(tried[value], 1e-9) / max(tried[before], 1e-9))
    found = rise / math.log(value / before)
    if found * power > 0:  # Otherwise the two differ by noise only.
      slope = found
  factor = max(tried[value], 1e-9) ** (-1 / slope)
  found = value * min(WIDEST, max(1 / WIDEST, factor))
  return _between(tried, found)


def _between(tried: dict[float, float], guess: float) -> float:
  """Returns `guess`, or the geometric mean of the nearest values around 1 if
  `guess` is not between them."""
  more = [value for value, share in tried.items() if share > 1]
  fewer = [value for value, share in tried.items() if share < 1]
  pairs = itertools.product(more, fewer)
  ends = min(pairs, key=lambda p: abs(math.log(p[0] / p[1])), default=None)
  if ends is None or min(ends) < guess < max(ends):
    return guess
  return math.sqrt(ends[0] * ends[1])
