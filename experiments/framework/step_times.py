"""The seconds of a step: computing and coding measured, the link modelled.

Two times are measured: one worker's gradient, and its coding, which is what the
strategy adds to the optimizer's step of a worker that receives its own messages
in place of the others'. Each is measured three times, with newly compiled
programs and newly allocated arrays.
"""

import statistics
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
from ml_collections import ConfigDict

from experiments.framework import (
  claim,
  intervals,
  numerics,
  other_load,
  workloads,
)
from experiments.framework.result_store import Key, ResultStore
from experiments.framework.seed_statistics import ERROR, PATH
from experiments.framework.single_run import key_of
from gossipjax.advice import step_cost
from gossipjax.errors import UserError
from gossipjax.network import PRESETS
from gossipjax.results import provenance
from gossipjax.results.standard_error import standard_error
from gossipjax.training.run import resolve_run

KIND = 'step_seconds'  # Kind of the kept results.
AGAIN, TURNS = 3, 31  # Measurements; turns of each, of which the median counts.
OF_GRADIENT = 'task', 'batch_size', 'compute_dtype', 'accumulate'
OF_CODING = 'task', 'workers', 'strategy'
CLAIMED = 1.31  # Speed-up over others that is claimed for Hylo.
LINK = '1gbe'
SPEED = f'times as fast as dense on {LINK}, modelled'
GRADIENT, CODING = 'gradient seconds', 'coding seconds'
TIMED_ON = 'timed on'
AT_EVEN = 'step seconds at that rate, modelled'
EVEN = f'B/s below which Hylo is {CLAIMED} times as fast as dense'


def of(
  workload: str,
  workers: int,
  strategy: ConfigDict,
  kept: ResultStore,
  scale: str = 'cpu',
) -> dict[str, Any]:
  """Returns seconds of one worker's gradient and of the strategy's coding, and
  the processor on which they were measured.

  All strategies of a workload have the same gradient, so it is measured once.
  Coding has to be measured on the same processor, else it is None.
  """
  config = workloads.config(workload, workers, scale, strategy)
  gradient, coding = keys(key_of(config)['config'])
  gradient_s = seconds(
    kept.get_or_compute(KIND, gradient, partial(_gradient, config))
  )
  processor = _processor(gradient, kept)
  if processor == provenance.processor():
    kept.get_or_compute(KIND, coding, partial(_coding, config))
  same = _processor(coding, kept) == processor
  measured = kept.find(KIND, coding)['result'] if same else None
  return {
    GRADIENT: gradient_s,
    CODING: measured and seconds(measured),
    CODING + ERROR: measured and standard_error(measured['seconds']),
    TIMED_ON: processor,
  }


def _processor(key: Key, kept: ResultStore) -> str | None:
  """Returns the processor of a measurement; None if it was not made yet."""
  line = kept.find(KIND, key)
  return line and line['made_with']['processor']


def own_s(
  workload: str,
  workers: int,
  strategy: ConfigDict,
  kept: ResultStore,
  scale: str = 'cpu',
) -> float:
  """Returns one worker's seconds of a gradient plus the strategy's coding.

  Raises:
    UserError: coding was not measured on the gradient's processor, which is not
      the one of this machine.
  """
  found = of(workload, workers, strategy, kept, scale)
  if found[CODING] is None:
    raise UserError(
      f'{strategy.name} on {workload} is not timed yet, and its gradient was '
      'timed on another processor than this one: time it there, or remove '
      f'the workload from {KIND}.jsonl and time all of them here.'
    )
  return found[GRADIENT] + found[CODING]


def keys(config: Mapping[str, Any]) -> tuple[Key, Key]:
  """Returns the keys of the kept seconds of a gradient, and of coding.

  Args:
    config: of a run, as `key_of` has it.
  """
  subset = lambda names: {
    name: config[name] for name in names if name in config
  }
  return (
    {'seconds of': 'gradient'} | subset(OF_GRADIENT),
    {'seconds of': 'coding', 'optimizer': config['optimizer']['name']}
    | subset(OF_CODING)
    | {'numerics': numerics.versions(config)},
  )


def seconds(result: Mapping[str, Any]) -> float:
  """The median of the measurements that are kept."""
  return statistics.median(result['seconds'])


def _gradient(config: ConfigDict) -> dict[str, Any]:
  task = resolve_run(config).task
  return _measured(lambda: step_cost.gradient_s(task, config, TURNS))


def _coding(config: ConfigDict) -> dict[str, Any]:
  task = resolve_run(config).task
  params, _ = jax.eval_shape(task.begin, jax.random.key(0))
  cost = lambda: step_cost.of(config, params, config.workers, TURNS)[1]
  return _measured(lambda: cost().select_s)


def _measured(measure: Callable[[], float]) -> dict[str, Any]:
  times, others = other_load.meanwhile(
    lambda: [measure() for _ in range(AGAIN)]
  )
  if others > other_load.MOST_OTHERS and not claim.QUICK.value:
    raise UserError(
      f'Other programs used {100 * others:.0f} % of the cores while a step was '
      'timed, so the time is not kept; stop them and try again.'
    )
  return {'seconds': times, other_load.OTHERS: others}


def row_of(rows: claim.Rows, workload: str, method: str) -> dict[str, Any]:
  """The row of a method on a workload."""
  return next(
    r for r in rows if (r['workload'], r['method']) == (workload, method)
  )


def on_links(rows: claim.Rows, row: dict[str, Any]) -> dict[str, float | None]:
  """Returns the speed-up of a row's step over dense on LINK, the rate at which
  Hylo's speed-up is CLAIMED, and the row's seconds of a step at that rate.

  A step takes gradient + coding + bytes / rate, without overlap.
  """
  dense, hylo = (
    row_of(rows, row['workload'], name) for name in ('dense', 'hylo')
  )
  if row[CODING] is None:
    return dict.fromkeys((SPEED, SPEED + ERROR, EVEN, AT_EVEN))
  own = lambda r: r[GRADIENT] + r[CODING]
  step_s = lambda r, rate: own(r) + r[PATH] / rate
  link_rate = PRESETS[LINK].bytes_per_s
  speed = step_s(dense, link_rate) / step_s(row, link_rate)
  gap = dense[PATH] - CLAIMED * hylo[PATH]
  rate = gap / (CLAIMED * own(hylo) - own(dense))
  even_rate = rate if gap > 0 and rate > 0 else None
  return {
    SPEED: speed,
    # Only of its coding: both have the same gradient, and dense hardly codes.
    SPEED + ERROR: speed * row[CODING + ERROR] / step_s(row, link_rate),
    EVEN: even_rate,
    AT_EVEN: even_rate and step_s(row, even_rate),
  }


def is_faster(row: dict[str, Any], least: float) -> bool | None:
  """Whether a step is `least` times as fast as dense, by its row with
  `on_links`; None if the measurements cannot tell."""
  return intervals.at_least(least, row[SPEED], row[SPEED + ERROR], AGAIN)


def pace(row: dict[str, Any]) -> str:
  """The same speed-up in words."""
  if row[SPEED] is None:
    return 'not timed yet'
  return f'{row[SPEED]:.2f} x (gradient {1e3 * row[GRADIENT]:.1f} ms)'
