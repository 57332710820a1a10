"""The seconds of a step: computing and coding measured, the link modelled."""

from typing import Any

import jax
from ml_collections import ConfigDict

from experiments.framework import claim
from experiments.framework.seed_statistics import PATH
from gossipjax.advice import step_cost
from gossipjax.training.run import resolve_run

FASTER = 1.31  # Times as fast as others, as claimed for Hylo.
EVEN = f'B/s below which Hylo is {FASTER} times as fast as dense'


def measure(config: ConfigDict) -> dict[str, float]:
  """Seconds of one worker's gradient, and what the strategy adds to a step."""
  task = resolve_run(config).task
  params, _ = jax.eval_shape(task.begin, jax.random.key(0))
  coding = step_cost.of(config, params, config.workers)[1].select_s
  return {
    'gradient seconds': step_cost.gradient_s(task, config.batch_size),
    'coding seconds': coding,
  }


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
