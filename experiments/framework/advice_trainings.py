"""Trainings by which advice is judged: pilots and whole trainings."""

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from ml_collections import ConfigDict

from experiments.framework import best_rate, step_times, study, workloads
from experiments.framework.result_store import ResultStore
from experiments.framework.single_run import Result
from gossipjax.advice import pilot_config
from gossipjax.advice.halving import Pilot, Round
from gossipjax.advice.pilot_plan import RATES
from gossipjax.advice.ranking import DENSE, Candidate, Curve, ranked
from gossipjax.comparison import targets
from gossipjax.config import resolve
from gossipjax.results import crossing

WORKERS = 8
METHODS: Mapping[str, dict[str, Any]] = {
  DENSE: {},
  'gossip': {'topology': 'exponential'},
  'local_sgd': {},
  'topk': {},
  'gtopk': {'density': 0.01},
  'ef_sign': {},
}
ROUNDS = ((1, 1), (2, 1), (4, 2))  # Steps over those of round 1; seeds.
SHORTER = 15  # Steps of a whole training over those of a first pilot.


def whole(
  name: str, method: str, scale: str, seeds: int, trials: int
) -> study.Study:
  """The study of a strategy at full length, at the best of `trials` rates."""
  strategy = resolve.strategy_config(method, **METHODS[method])
  return best_rate.tune_strategy(
    name, WORKERS, scale, strategy, seeds=seeds, trials=trials
  )


def config(name: str, method: str, scale: str) -> ConfigDict:
  """Returns the config of a strategy on a workload, at full length."""
  strategy = resolve.strategy_config(method, **METHODS[method])
  return workloads.config(name, WORKERS, scale, strategy)


def rounds(full: int) -> list[Round]:
  """Returns the rounds of pilots for a whole training of `full` steps."""
  first = max(1, full // SHORTER)
  return [Round(first * times, seeds) for times, seeds in ROUNDS]


def of_pilots(name: str, scale: str) -> study.Study:
  """The study of all pilots that halving may request on any link, by pilot.

  After each round, each strategy continues at one rate: the best one if a step
  takes the same time with every strategy. If another rate were best on a link,
  its longer pilots would be missing; this has not happened.
  """
  methods = list(METHODS)[: 2 if scale == 'quick' else None]
  configs = {m: config(name, m, scale) for m in methods}
  alive = list(_candidates(configs))
  full, found = configs[DENSE].steps, {}
  for steps, seeds in rounds(full):
    pilots = [Pilot(c, steps, s) for c in alive for s in range(seeds)]
    runs = yield [
      study.RunRequest(
        name, pilot_config.config_of(configs[p.candidate.name], p)
      )
      for p in pilots
    ]
    found |= dict(zip(pilots, runs, strict=True))
    curves: dict[Candidate, list[Curve]] = {}
    for pilot, run in zip(pilots, runs, strict=True):
      curves.setdefault(pilot.candidate, []).append(curve(name, run, 1.0, ''))
    higher = not workloads.WORKLOADS[name].is_loss
    alive = [r.candidate for r in ranked(curves, steps, full, higher)]
  return found


def _candidates(configs: Mapping[str, ConfigDict]) -> Iterable[Candidate]:
  for method, run in configs.items():
    for factor in RATES:
      rate = run.optimizer.learning_rate * factor
      yield Candidate(method, float(f'{rate:.3g}'))


def curve(name: str, run: Result, step_s: float, link: str) -> Curve:
  """Returns a run's scores and seconds on a link; '' is a link that takes no
  time. The curve is empty if the run diverged."""
  metric = workloads.WORKLOADS[name].metric
  if run['diverged']:
    return Curve([], [])
  last = max(run['records'][-1]['most_bytes_sent'], 1)
  spent = run['comm_s'][link] / last if link else 0.0
  shown = [r for r in run['records'] if r.get(metric) is not None]
  return Curve(
    [r[metric] for r in shown],
    [r['step'] * step_s + r['most_bytes_sent'] * spent for r in shown],
  )


def own_seconds(name: str, method: str, kept: ResultStore) -> float:
  """Returns one worker's seconds of a gradient plus the strategy's coding."""
  strategy = resolve.strategy_config(method, **METHODS[method])
  return step_times.own_s(name, WORKERS, strategy, kept)


def to_target(
  curves: Mapping[str, list[Curve]], higher: bool, share: float = targets.SHARE
) -> dict[str, list[float]]:
  """Returns each strategy's seconds to the target of all-reduce, by seed.

  Seeds are compared in groups of three, each with its own target: all-reduce's
  worst seed sets the target, and the worst of more seeds sets an easier one. A
  seed that misses the target costs its whole training plus all-reduce's mean
  seconds to the target, because the user has to start again with all-reduce.
  Strategies that lack a seed, or of which a seed diverged, are left out.
  """
  found: dict[str, list[float]] = {}
  for first in range(0, len(curves[DENSE]), best_rate.SEEDS):
    three = slice(first, first + best_rate.SEEDS)
    of_three = {m: each[three] for m, each in curves.items()}
    added = _to_target(of_three, higher, share)
    for method, seconds in added.items():
      found.setdefault(method, []).extend(seconds)
  most = max(map(len, found.values()), default=0)
  return {m: seconds for m, seconds in found.items() if len(seconds) == most}


def _to_target(
  curves: Mapping[str, list[Curve]], higher: bool, share: float
) -> dict[str, list[float]]:
  pick = targets.pick(higher)
  bests = [pick(curve.scores) for curve in curves[DENSE]]
  target = targets.target_of(bests, higher, share)

  def seconds(curve: Curve, penalty: float) -> float:
    place = crossing.place(curve.scores, target, higher)
    if place is None:
      return curve.seconds[-1] + penalty
    return crossing.at(curve.seconds, place)

  dense = statistics.fmean(seconds(curve, 0.0) for curve in curves[DENSE])
  return {
    method: [seconds(curve, dense) for curve in each]
    for method, each in curves.items()
    if each and all(curve.scores for curve in each)
  }
