"""Studies of gossip triggers whose argument is tuned to send given bytes."""

from typing import Any

from ml_collections import ConfigDict

from experiments.framework import best_rate, matched, study, workloads
from experiments.framework.best_rate import Tuned
from experiments.framework.single_run import Result
from gossipjax.config import resolve

PERIOD = 12  # A fixed period that sends the claimed bytes, within 5 %.
FIXED, FIXED_EXPONENTIAL = (
  f'fixed-{PERIOD}',
  f'fixed-{PERIOD // 2}, exponential',
)
PERIODS = {FIXED: PERIOD, FIXED_EXPONENTIAL: PERIOD // 2}
# All-reduces parameters at the same bytes: 2 (P - 1) / P models an exchange.
LOCAL_SGD = 'local_sgd-11'
UNTRIGGERED = {
  'gossip': resolve.strategy_config('gossip'),
  LOCAL_SGD: resolve.strategy_config('local_sgd', period=11),
}
# A better variant: a graph whose exchanges cost half the bytes and average
# exactly after log2 P exchanges, and a constant threshold, so that exchanges
# become rarer as the learning rate falls.
CONSTANT_DRIFT = 'constant drift, exponential'
SEARCHES = {
  'relative_drift': matched.Search(
    lambda v: {'name': 'relative_drift', 'scale': v}, 6.0, -1.5
  ),
  'target_interval': matched.Search(
    lambda v: {'name': 'target_interval', 'interval': v}, 12.5, -1.0
  ),
  # Thresholds grow by this share at every silent step.
  'norm_slope': matched.Search(
    lambda v: {'name': 'norm_slope', 'horizon': 1 + v}, 0.02, -0.5
  ),
  'random': matched.Search(
    lambda v: {'name': 'random', 'rate': v}, 1 / PERIOD, 1.0
  ),
  CONSTANT_DRIFT: matched.Search(
    lambda v: {'name': 'target_interval', 'interval': v, 'kappa': 0.0},
    97.0,
    -1.3,
  ),
}
ADAPTIVE = tuple(SEARCHES)[:3]
FAR = 1.5  # A search that ends this factor from the wanted bytes has failed.


def bytes_of_all(run: Result) -> float | None:
  """Bytes of a step, of all workers; None if the run diverged."""
  end = workloads.final_record(run)
  return end['bytes_sent'] / end['step'] if end else None


# Bytes that are matched, by scope: those of all workers if each decides alone,
# since then the busiest link changes from step to step; those on the busiest
# link if all decide together.
COUNTS = {'local': bytes_of_all, 'all': workloads.busiest_bytes}


def size_of_exchange(method: str, workers: int) -> float:
  """Bytes that a worker sends in an exchange, over those on a ring."""
  if method == LOCAL_SGD:
    return (workers - 1) / workers
  return 0.5 if method in (CONSTANT_DRIFT, FIXED_EXPONENTIAL) else 1.0


def tuned(
  name: str, workers: int, scope: str, method: str, scale: str
) -> study.Study:
  """Tunes the learning rate of a method that sends the claimed traffic.

  The result has no rates or seeds if no value of its argument comes near that
  traffic.
  """
  if method in SEARCHES:
    return (yield from _searched(name, workers, scope, method, scale))
  if method in UNTRIGGERED:
    strategy = UNTRIGGERED[method]
  else:
    trigger = {'name': 'fixed', 'period': PERIODS[method]}
    strategy = _triggered(scope, trigger, _graph(method))
  return (yield from best_rate.tune_strategy(name, workers, scale, strategy))


def _searched(
  name: str, workers: int, scope: str, method: str, scale: str
) -> study.Study:
  """`tuned` for a method of SEARCHES."""
  search = SEARCHES[method]
  strategy = lambda value: _triggered(scope, search.part(value), _graph(method))
  config_of = lambda strategy: workloads.config(name, workers, scale, strategy)
  gossip = config_of(UNTRIGGERED['gossip'])
  gossip_bytes = yield from matched.bytes_of(name, gossip, COUNTS[scope])

  def near(begin: float, rate: float) -> study.Study:
    """The value that sends the claimed traffic at a learning rate."""
    return matched.value_for(
      name,
      lambda value: best_rate.seeded(config_of(strategy(value)), rate, 0),
      begin,
      gossip_bytes / PERIOD,
      search.power,
      COUNTS[scope],
    )

  own_rate = gossip.optimizer.learning_rate
  start, reached = yield from near(search.begin, own_rate)
  if not 1 / FAR < reached < FAR:
    return Tuned({}, None, [], False)

  def at_best(rate: float) -> study.Study:
    """Searches again at another rate, since the rate changes the traffic."""
    value = start
    if rate != own_rate:
      value, _ = yield from near(start, rate)
    return config_of(strategy(value))

  return (
    yield from best_rate.tune_strategy(
      name, workers, scale, strategy(start), at_best=at_best
    )
  )


def _graph(method: str) -> str:
  return (
    'exponential' if method in (CONSTANT_DRIFT, FIXED_EXPONENTIAL) else 'ring'
  )


def _triggered(scope: str, trigger: dict[str, Any], graph: str) -> ConfigDict:
  return resolve.strategy_config(
    'adaptive_gossip', scope=scope, trigger=trigger, topology=graph
  )
