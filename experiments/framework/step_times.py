"""The seconds of a step: computing and coding measured, the link modelled."""

from functools import partial
from typing import Any

import jax
from ml_collections import ConfigDict

from experiments.framework import claim, workloads
from experiments.framework.kept import Kept
from experiments.framework.seed_statistics import PATH
from experiments.framework.single_run import key_of
from gossipjax.advice import step_cost
from gossipjax.training.run import resolve_run

KIND = 'step_seconds'  # Of kept results.
USUAL = 8  # Workers; not in the key of a gradient.
TURNS = 31  # Of each measurement, of which the median counts.
FASTER = 1.31  # Times as fast as others, as claimed for Hylo.
EVEN = f'B/s below which Hylo is {FASTER} times as fast as dense'


def of(
  workload: str, workers: int, strategy: ConfigDict, kept: Kept
) -> dict[str, float]:
  """Seconds of one worker's gradient, and what the strategy adds to a step.

  All strategies of a workload have the same gradient, so it is measured once.
  """
  config = workloads.config(workload, workers, 'cpu', strategy)
  arguments = key_of(config)['config']['strategy']
  of_strategy = {'workers': workers, 'strategy': arguments}
  key = gradient_key(workload, workers)
  gradient = kept.once(KIND, key, partial(_gradient, config))
  coding = kept.once(KIND, key | of_strategy, partial(_coding, config))
  return gradient | coding


def gradient_key(workload: str, workers: int) -> dict[str, Any]:
  """Of a worker's gradient: its batch is the smaller, the more workers."""
  key: dict[str, Any] = {'workload': workload}
  return key if workers == USUAL else key | {'workers': workers}


def _gradient(config: ConfigDict) -> dict[str, float]:
  task = resolve_run(config).task
  seconds = step_cost.gradient_s(task, config, TURNS)
  return {'gradient seconds': seconds}


def _coding(config: ConfigDict) -> dict[str, float]:
  task = resolve_run(config).task
  params, _ = jax.eval_shape(task.begin, jax.random.key(0))
  _, cost = step_cost.of(config, params, config.workers, TURNS)
  return {'coding seconds': cost.select_s}


def row_of(rows: claim.Rows, workload: str, method: str) -> dict[str, Any]:
  """The row of a method on a workload."""
  return next(
    r for r in rows if (r['workload'], r['method']) == (workload, method)
  )


def at_even_rate(
  rows: claim.Rows, row: dict[str, Any]
) -> dict[str, float | None]:
  """The rate at which Hylo is 1.31 times as fast as dense, and the seconds of
  a step of the row's method at that rate.

  gradient + coding + bytes / rate, none of it overlapped
  """
  dense, hylo = (
    row_of(rows, row['workload'], name) for name in ('dense', 'hylo')
  )
  own = lambda r: r['gradient seconds'] + r['coding seconds']
  gap = dense[PATH] - FASTER * hylo[PATH]
  rate = gap / (FASTER * own(hylo) - own(dense))
  if gap <= 0 or rate <= 0:
    return {EVEN: None, 'step seconds at that rate, modelled': None}
  return {
    EVEN: rate,
    'step seconds at that rate, modelled': own(row) + row[PATH] / rate,
  }
