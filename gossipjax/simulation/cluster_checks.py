"""Checks of the keys of `config.cluster`; each raises a UserError."""

import math
from collections.abc import Sequence

from gossipjax.errors import UserError, nearest

COMPUTE = ('constant', 'uniform', 'lognormal', 'gamma', 'trace')


def check_name(key: str, value: str, names: Sequence[str]) -> None:
  """Raises a UserError unless the value of a key is one of `names`."""
  if value not in names:
    raise UserError(f'cluster.{key}={value} is unknown{nearest(value, names)}')


def at_least(least: float, **numbers: float) -> None:
  """Raises a UserError if the value of a key is below `least` or NaN."""
  for key, number in numbers.items():
    if not number >= least:
      raise UserError(f'cluster.{key} must be at least {least}, got {number}.')


def check_passing(
  step_s: float, asynchronous: bool, latency_s: float, bytes_per_s: float
) -> None:
  """Raises a UserError if virtual time would stand still for some workers."""
  if not step_s and not latency_s and math.isinf(bytes_per_s):
    raise UserError(
      'cluster.step_s=0, and a link without latency and with infinite '
      'bandwidth: no time passes; set step_s, latency_s or bytes_per_s.'
    )
  if not step_s and asynchronous:
    raise UserError(
      'cluster.step_s=0: with asynchronous workers, worker 0 would take all '
      'its steps before time passes; set step_s above 0.'
    )


def check_compute(compute: str, spread: float, trace: str) -> None:
  """Raises a UserError for an unknown distribution of compute times, for keys
  that it ignores, and for a spread that it does not allow."""
  check_name('compute', compute, COMPUTE)
  if trace and compute != 'trace':
    raise UserError(
      f'cluster.trace={trace} needs cluster.compute=trace, not {compute}.'
    )
  if spread > 0 and compute in ('constant', 'trace'):
    raise UserError(
      f'cluster.spread={spread} has no effect with compute={compute}; set '
      'cluster.compute=uniform, lognormal or gamma.'
    )
  if compute == 'uniform' and spread > 1:
    raise UserError(
      f'cluster.spread={spread} of compute=uniform must be at most 1; '
      'a larger one gives negative times.'
    )


def check_first(first: int, workers: int, asynchronous: bool) -> None:
  """Raises a UserError unless a round can take the first `first` workers."""
  at_least(0, first=first)
  if first > workers:
    raise UserError(
      f'cluster.first={first} is more than workers={workers}; 0 is all.'
    )
  if first and asynchronous:
    raise UserError(
      f'cluster.first={first} is for synchronous rounds; set '
      'cluster.asynchronous=False.'
    )
  if first == 1 < workers:
    raise UserError(
      'cluster.first=1: a round of one worker exchanges nothing; set 0 (all '
      'workers) or at least 2.'
    )


def check_workers(key: str, found: Sequence[float], workers: int) -> None:
  """Raises a UserError unless all numbers in `found` are workers."""
  for worker in found:
    if worker not in range(workers):
      raise UserError(
        f'cluster.{key}: there is no worker {worker:g} among 0 to '
        f'{workers - 1}.'
      )


def slow_periods(slow, workers: int) -> tuple[tuple[float, ...], ...]:
  """`Cluster.slow`, checked."""
  for entry in slow:
    if len(entry) != 4 or not 0 <= entry[1] <= entry[2] or not entry[3] > 0:
      raise UserError(
        f'cluster.slow: {entry} is not (worker, from_s, until_s, '
        'factor) with 0 <= from_s <= until_s and factor > 0.'
      )
  check_workers('slow', [entry[0] for entry in slow], workers)
  return tuple(slow)


def outages(failures, workers: int) -> tuple[tuple[float, float, float], ...]:
  """`Cluster.outages` from checked failures: (worker, from_s, until_s), the
  earliest first.

  Raises:
    UserError: a worker or a time is impossible, or no worker is left.
  """
  for entry in failures:
    times = entry[1:]
    until = times[1] if len(times) == 2 else math.inf
    if len(times) not in (1, 2) or not 0 <= times[0] < until:
      raise UserError(
        f'cluster.failures: {entry} is not (worker, at_s) or '
        '(worker, at_s, back_s) with 0 <= at_s < back_s.'
      )
  check_workers('failures', [entry[0] for entry in failures], workers)
  times = ((int(e[0]), e[1], *(e[2:3] or (math.inf,))) for e in failures)
  found = tuple(sorted(times, key=lambda outage: outage[1:]))
  if {who for who, _, until in found if until == math.inf} >= {*range(workers)}:
    raise UserError(
      'cluster.failures stops every worker for good; keep one running, or let '
      'one come back.'
    )
  return found
