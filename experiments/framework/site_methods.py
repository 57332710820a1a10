"""Methods that train between sites, for one table: configs and outer rates."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from experiments.framework import workloads
from gossipjax.config import defaults, resolve

PERIOD = 30
OUTER = (0.4, 0.7, 1.0)  # Outer rates that are tried.
FIRST = 0.7  # With which inner rates are tried.
# MuLoCo's authors' optimizer. Tuning sets out from a tenth of their rate, 0.02:
# from there five trials end at the lowest.
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


def _diloco(name: str = 'diloco', period: int = PERIOD, **given: Any):
  config = resolve.strategy_config(name, period=period, **given)
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


def _periodic(name: str, **given: Any) -> ConfigDict:
  return resolve.strategy_config(name, period=PERIOD, **given)


# The most telling first.
METHODS: Mapping[str, Method] = {
  'all_reduce': Method(resolve.strategy_config('all_reduce')),
  'diloco': Method(_diloco(), 'outer.stepsize'),
  'noloco': Method(_periodic('noloco'), 'stepsize'),
  'streaming_diloco': Method(_streaming(), 'outer.stepsize'),
  'diloco, 4 bits': Method(_bits(4, 0.0), 'outer.stepsize'),
  'sparse_loco': Method(_periodic('sparse_loco'), 'stepsize'),
  'muloco': Method(_diloco(), 'outer.stepsize', muon=True),
  'diloco, 2 bits, error feedback': Method(_bits(2, 1.0), 'outer.stepsize'),
  'diloco, period 5': Method(_diloco(period=5), 'outer.stepsize'),
  'diloco, period 100': Method(_diloco(period=100), 'outer.stepsize'),
  'local_sgd': Method(_periodic('local_sgd')),
  'des_loc': Method(
    _periodic('des_loc', first_period=3 * PERIOD, second_period=6 * PERIOD)
  ),
  'sparta': Method(resolve.strategy_config('sparta')),
  'all_reduce, muon': Method(resolve.strategy_config('all_reduce'), muon=True),
}


def config(
  workload: str, workers: int, split: str, method: str, scale: str
) -> ConfigDict:
  """The run of a method, with the rates from which tuning sets out."""
  what = METHODS[method]
  strategy = what.strategy.copy_and_resolve_references()
  found = workloads.config(workload, workers, scale, strategy)
  found.split.name = split
  if what.muon:
    kept = {key: found.optimizer[key] for key in ('schedule', 'warmup_steps')}
    found.optimizer = defaults.optimizer(**MUON, **kept)
  return with_outer(found, method, FIRST) if what.outer else found


def with_outer(config: ConfigDict, method: str, rate: float) -> ConfigDict:
  """A copy of the config with that outer rate."""
  found = config.copy_and_resolve_references()
  *inside, last = METHODS[method].outer.split('.')
  part = found.strategy
  for key in inside:
    part = part[key]
  part[last] = rate
  return found
