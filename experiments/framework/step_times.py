"""The seconds of a step: computing and coding measured, the link modelled."""

import math
from collections.abc import Sequence
from typing import Any

import jax
from ml_collections import ConfigDict

from experiments.framework import claim, seed_statistics, workloads
from gossipjax.advice import step_cost
from gossipjax.config.variants import variants
from gossipjax.training.run import resolve_run

PATH = 'bytes on the busiest link'
FASTER = 1.31  # Times as fast as others, as claimed for Hylo.
EVEN = f'B/s below which Hylo is {FASTER} times as fast as dense'


def measure(config: ConfigDict) -> dict[str, float]:
  """Of one worker: its `gradient`, and what each method adds to a step."""
  task = resolve_run(config).task
  params = jax.eval_shape(task.init, jax.random.key(0))
  added = {
    name: step_cost.of(run, params, config.workers)[1].select_s
    for name, run in variants(config)
  }
  return {'gradient': step_cost.gradient_s(task, config.batch_size), **added}


def parts(
  runs: Sequence[dict[str, Any]], here_s: dict[str, float], method: str
) -> dict[str, float]:
  """What a step of a method consists of.

  Args:
    runs: of the method; NaN bytes if all diverged.
    here_s: what `measure` found.
    method: its name.
  """
  good = [run for run in runs if seed_statistics.last(run)]
  path = math.nan
  if good:
    steps = seed_statistics.last(good[0])['step']
    path = seed_statistics.path_s(good[0]) * workloads.RATE / steps
  return {
    PATH: path,
    'gradient seconds': here_s['gradient'],
    'coding seconds': here_s[method],
  }


def row_of(rows: claim.Rows, network: str, method: str) -> dict[str, Any]:
  """The row of a method on a network."""
  return next(
    r for r in rows if (r['network'], r['method']) == (network, method)
  )


def at_even_rate(
  rows: claim.Rows, row: dict[str, Any]
) -> dict[str, float | None]:
  """The rate at which Hylo is 1.31 times as fast as dense, and the seconds of
  a step of the row's method at that rate.

  gradient + coding + bytes / rate, none of it overlapped
  """
  dense, hylo = (
    row_of(rows, row['network'], name) for name in ('dense', 'hylo')
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
