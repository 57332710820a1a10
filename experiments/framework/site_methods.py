"""Methods that train between sites: configs, and how their rates are tuned."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from experiments.framework import (
  best_rate,
  study,
  training_claim,
  tried_rates,
  workloads,
)
from gossipjax.config import defaults, given_arguments, resolve

PERIOD = 30  # Shorter if a run would have too few exchanges, see `config_of`.
SPARSE = 192  # Fewest exchanges of sparse_loco: 3 / density, as each selects.
OUTER = (0.4, 0.7, 1.0)  # Outer rates that are tried first.
FURTHER = 1.4  # Factor between further outer rates.
ALL_REDUCE_WORKERS = 8  # With these its rate is chosen, if IID.
OUTER_TRIALS = 7  # Largest number of outer rates; SparseLoCo's best is >= 2.
SEEDS = {'fashion-dense': 6}  # A training takes 13 s; 3 seeds decide little.
FIRST = 0.7  # Outer rate at which inner rates are tuned.
# The optimizer of MuLoCo's authors. Tuning starts at a tenth of their rate of
# 0.02: five trials that start at 0.02 end at the lowest rate.
MUON = {'name': 'optax.contrib:muon', 'learning_rate': 0.002}


class Method(NamedTuple):
  """A strategy and its inner optimizer.

  Attributes:
    strategy: `config.strategy`.
    outer: key of the outer rate in it, for example 'outer.stepsize'; '' if it
      has none.
    muon: whether Muon replaces the workload's optimizer.
  """

  strategy: ConfigDict
  outer: str = ''
  muon: bool = False


def _diloco(name: str = 'diloco', period: int = PERIOD, **options: Any):
  config = resolve.strategy_config(name, period=period, **options)
  config.outer.name, config.outer.momentum = 'nesterov', 0.9
  return config


def _bits(bits: int, decay: float) -> ConfigDict:
  config = _diloco(decay=decay)
  config.compressor.name, config.compressor.bits = 'linear', bits
  return config


def _streaming() -> ConfigDict:
  config = _diloco('streaming_diloco', fragments=2)
  config.compressor.name = 'none'
  return config


def _periodic(name: str, **options: Any) -> ConfigDict:
  return resolve.strategy_config(name, period=PERIOD, **options)


# The most informative first; special cases of DiLoCo are next to it.
METHODS: Mapping[str, Method] = {
  'all_reduce': Method(resolve.strategy_config('all_reduce')),
  'diloco': Method(_diloco(), 'outer.stepsize'),
  'local_sgd': Method(_periodic('local_sgd')),
  'noloco': Method(_periodic('noloco'), 'stepsize'),
  'streaming_diloco': Method(_streaming(), 'outer.stepsize'),
  'diloco, 4 bits': Method(_bits(4, 0.0), 'outer.stepsize'),
  'sparse_loco': Method(_periodic('sparse_loco'), 'stepsize'),
  'muloco': Method(_diloco(), 'outer.stepsize', muon=True),
  'diloco, 2 bits, error feedback': Method(_bits(2, 1.0), 'outer.stepsize'),
  'diloco, period 5': Method(_diloco(period=5), 'outer.stepsize'),
  'diloco, period 100': Method(_diloco(period=100), 'outer.stepsize'),
  'des_loc': Method(
    _periodic('des_loc', first_period=3 * PERIOD, second_period=6 * PERIOD)
  ),
  'sparta': Method(resolve.strategy_config('sparta')),
  'all_reduce, muon': Method(resolve.strategy_config('all_reduce'), muon=True),
}


class Trained(NamedTuple):
  """A method at its best rates.

  Attributes:
    tuned: see `best_rate.Tuned`; the curve is of inner rates.
    outer: the best outer rate; None without an outer step.
    inside: whether worse outer rates lie on both sides of it.
    by_outer: outer rate -> score on validation data.
  """

  tuned: best_rate.Tuned
  outer: float | None
  inside: bool
  by_outer: Mapping[float, float | None] = {}

  @property
  def sure(self) -> best_rate.Tuned:
    """The tuned method; its `inside` requires both best rates to be inside."""
    return self.tuned._replace(inside=self.tuned.inside and self.inside)


def config_of(
  workload: str, workers: int, split: str, method: str, scale: str
) -> ConfigDict:
  """Returns a method's config, with the rates at which tuning starts."""
  spec = METHODS[method]
  strategy = spec.strategy.copy_and_resolve_references()
  found = workloads.config(workload, workers, scale, strategy)
  if strategy.get('period') == PERIOD:
    fewest = SPARSE if method == 'sparse_loco' else training_claim.EXCHANGES
    longest = max(1, found.steps // fewest)
    found.strategy.period = min(PERIOD, longest)
  found.split.name = split
  if spec.muon:
    kept = {key: found.optimizer[key] for key in ('schedule', 'warmup_steps')}
    if decay := found.optimizer.get('weight_decay'):
      kept |= {'weight_decay': decay, 'adam_weight_decay': decay}
    found.optimizer = defaults.optimizer(**MUON, **kept)
  return with_outer(found, method, FIRST) if spec.outer else found


def with_outer(config: ConfigDict, method: str, rate: float) -> ConfigDict:
  """A copy of the config with that outer rate."""
  found = config.copy_and_resolve_references()
  *parents, last = METHODS[method].outer.split('.')
  part = found.strategy
  for key in parents:
    part = part[key]
  part[last] = rate
  return found


def tuned(
  name: str, workers: int, split: str, method: str, scale: str
) -> study.Study:
  """Tunes inner rates at one outer rate, then outer rates, then runs all seeds.

  Returns:
    `Trained`.
  """
  config = config_of(name, workers, split, method, scale)
  if scale == 'quick':
    only = yield from best_rate.tuned(name, config, seeds=1, trials=1)
    return Trained(only, None, True)
  begin = config
  if method == 'all_reduce' and split == 'iid':  # The same for any P.
    begin = config_of(name, ALL_REDUCE_WORKERS, split, method, scale)
  first = yield from best_rate.tuned(name, begin, seeds=0)
  outer, inside, by_outer = None, True, {}
  if first.rate is None:
    return Trained(first, outer, inside)
  if METHODS[method].outer:
    by_outer, inside = yield from _outer(name, config, method, first.rate)
    outer = tried_rates.best_of(by_outer)
    config = with_outer(config, method, outer)
  runs = yield [
    study.RunRequest(name, best_rate.seeded(config, first.rate, seed))
    for seed in scored_seeds(name, split)
  ]
  arguments = given_arguments.as_text(config.strategy)
  best = first._replace(runs=runs, arguments=arguments)
  return Trained(best, outer, inside, by_outer)


def scored_seeds(workload: str, split: str) -> range:
  """Returns the seeds of the runs at the best rates. Rates are chosen with seed
  0, which is not scored if it decides the partition (a Dirichlet split)."""
  first = int(split == 'dirichlet')
  return range(first, first + SEEDS.get(workload, best_rate.SEEDS))


def _outer(
  name: str, config: ConfigDict, method: str, rate: float
) -> study.Study:
  """Returns scores by outer rate, and whether the best is inside; further rates
  are tried while the best is the lowest or the highest."""
  curve: dict[float, float | None] = {}
  outers = sorted(OUTER, key=lambda outer: outer != FIRST)  # FIRST wins a tie.
  while outers and len(curve) < OUTER_TRIALS:
    configs = [with_outer(config, method, outer) for outer in outers]
    runs = yield [
      study.RunRequest(name, best_rate.on_validation(trial, rate))
      for trial in configs
    ]
    scores = map(workloads.WORKLOADS[name].score, runs)
    curve |= dict(zip(outers, scores, strict=True))
    best = tried_rates.best_of(curve)
    outers = [
      round(outer, 2)
      for end, outer in ((min, best / FURTHER), (max, best * FURTHER))
      if best == end(curve)
    ]
  return curve, not outers
