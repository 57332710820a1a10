"""Studies that tune the learning rate of a method, then score every seed.

Rates are compared on validation data, at the end of their schedules; the best
rate is then scored with every seed on test data.
"""

import functools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ml_collections import ConfigDict

from experiments.framework import tried_rates, workloads
from experiments.framework.result_store import ResultStore
from experiments.framework.single_run import Result
from experiments.framework.study import RunRequest, Study, replay
from gossipjax.config import given_arguments

TRIALS = 5  # Most learning rates of a method, unless a claim says more.
SEEDS, MORE = 3, 6  # Of a method; where the best of many methods is sought.
# Difference in accuracy that one seed on validation data cannot resolve.
TIE = 0.003


class Tuned(NamedTuple):
  """A method at its best learning rate.

  Attributes:
    curve: learning rate -> score on validation data, None if it diverged.
    rate: the best learning rate; None if all diverged.
    runs: results at that rate, one for each seed, scored on test data.
    inside: whether worse rates lie on both sides of the best.
    arguments: of the strategy, see `given_arguments.as_text`.
  """

  curve: dict[float, float | None]
  rate: float | None
  runs: list[Result]
  inside: bool
  arguments: str = ''


def tuned(
  workload: str,
  config: ConfigDict,
  probe: str = '',
  seeds: int = SEEDS,
  trials: int = TRIALS,
  score: Callable[[Result], float | None] | None = None,
  first_seed: int = 0,
  tie: float = 0.0,
  at_best: Callable[[float], Study] | None = None,
) -> Study:
  """Finds the best learning rate on validation data, then scores every seed.

  The rates are a factor of sqrt(10) apart, on both sides of the config's rate;
  further rates are tried while the best is the lowest or the highest. In a tie
  the rate nearest to the config's is the best.

  Args:
    workload: of the config.
    config: its learning rate is the middle of the grid; its seed is not used.
    probe: of the runs that are scored with every seed.
    seeds: number of seeds at the best rate.
    trials: largest number of rates.
    score: result -> score, higher is better; None: the workload's score.
    first_seed: seed with which rates are compared.
    tie: rates whose scores are that close to the best are compared by the mean
      of SEEDS seeds.
    at_best: best rate -> study of the config that is scored with every seed;
      None: `config`.

  Returns:
    `Tuned`.
  """
  score = score or workloads.WORKLOADS[workload].score
  scored = functools.partial(_scored, workload, config, score)
  begin = config.optimizer.learning_rate
  curve = yield from _curve(scored, begin, trials, first_seed, tie)
  best = tried_rates.best_of(curve)
  runs = []
  if best is not None:
    if at_best:
      config = yield from at_best(best)
    runs = yield [
      RunRequest(workload, seeded(config, best, seed), probe)
      for seed in range(seeds)
    ]
  arguments = given_arguments.as_text(config.strategy)
  inside = not tried_rates.beyond(curve)
  return Tuned(dict(sorted(curve.items())), best, runs, inside, arguments)


def _curve(
  scored: Callable[..., Study],
  begin: float,
  trials: int,
  first_seed: int,
  tie: float,
) -> Study:
  """Scores rates around `begin`; returns scores by rate. See `tuned`."""
  curve: tried_rates.Curve = {}
  rates = tried_rates.around(begin, (0, -1, 1) if trials > 1 else (0,))
  settled: set[float] = set()
  while rates or (near := tried_rates.near_best(curve, tie) - settled):
    if rates:
      curve |= yield from scored(rates, [first_seed])
    else:
      curve |= yield from scored(near, range(first_seed, first_seed + SEEDS))
      settled |= near
    rates = tried_rates.beyond(curve) if len(curve) < trials else []
  return curve


def tune_strategy(
  workload: str,
  workers: int,
  scale: str,
  strategy: ConfigDict,
  probe: str = '',
  seeds: int = SEEDS,
  tie: float = 0.0,
  at_best: Callable[[float], Study] | None = None,
  trials: int = TRIALS,
) -> Study:
  """Runs `tuned` on a workload's config; scale 'quick': one rate, one seed."""
  config = workloads.config(workload, workers, scale, strategy)
  if scale == 'quick':
    seeds = trials = 1
  return tuned(workload, config, probe, seeds, trials, tie=tie, at_best=at_best)


def further_seeds(
  methods: Mapping[str, Callable[[int], Study]],
  choose: Callable[[dict[str, Tuned]], Iterable[str]],
  seeds: int = SEEDS,
) -> Study:
  """Runs one seed of every method, then more seeds of the chosen methods.

  Args:
    methods: name -> (number of seeds -> the method's study).
    choose: (`Tuned` with one seed, by name) -> names that get more seeds.
    seeds: number of seeds of the chosen methods.

  Returns:
    `Tuned` with that many seeds, by name of the chosen methods.
  """
  first = {}
  for name, method in methods.items():
    first[name] = yield from method(1)
  more = {}
  for name in choose(first):
    more[name] = yield from methods[name](seeds)
  return more


def with_all_seeds(
  of: Callable[[int], Study], one: Tuned, kept: ResultStore
) -> Tuned:
  """Returns a method with all seeds if their runs are kept, whichever claim
  requested them; else `one`."""
  return replay(of(SEEDS), kept).found or one


def _scored(
  workload: str,
  config: ConfigDict,
  score: Callable[[Result], float | None],
  rates: Iterable[float],
  seeds: Sequence[int],
) -> Study:
  """Returns rates' mean scores on validation data; None if a seed diverged."""
  rates, found = [*rates], {}
  runs = yield [
    RunRequest(workload, on_validation(config, rate, seed))
    for rate in rates
    for seed in seeds
  ]
  for rate in rates:
    group, runs = runs[: len(seeds)], runs[len(seeds) :]
    scores = [s for s in map(score, group) if s is not None]
    complete = len(scores) == len(seeds)
    found[rate] = statistics.fmean(scores) if complete else None
  return found


def on_validation(config: ConfigDict, rate: float, seed: int = 0) -> ConfigDict:
  """The config with a rate and a seed, scored on a part of the training set."""
  found = seeded(config, rate, seed)
  found.split.holdout = 'validation'
  return found


def seeded(config: ConfigDict, rate: float, seed: int) -> ConfigDict:
  """The config with a rate and a seed."""
  found = config.copy_and_resolve_references()
  found.optimizer.learning_rate = rate
  found.seed = seed
  return found
