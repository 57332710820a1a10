"""Machines to train on in virtual time: `config.cluster`, checked.

Speeds, stragglers and failures of the workers, their links and a server's.
"""

import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gossipjax import network
from gossipjax.errors import UserError, nearest

COMPUTE = ('constant', 'uniform', 'lognormal', 'gamma', 'trace')
SERVERS = ('fifo', 'fair')


class Cluster(NamedTuple):
  """What `config.cluster` says; see `cluster` for what it writes otherwise."""

  asynchronous: bool  # Nobody waits for others; or all do, after each step.
  link: network.Link  # Of every worker, and of every shard of a server.
  compute: str  # How the seconds of a gradient are drawn, one of COMPUTE.
  step_s: float  # Their mean, but for a trace.
  spread: float  # uniform: half the width, gamma: the deviation, both over the
  # mean; lognormal: sigma.
  trace: np.ndarray | None  # f64[steps, 1 or workers], measured seconds.
  factors: tuple[float, ...]  # Of these seconds, per worker.
  stragglers: tuple[int, ...]  # Who sleeps after each gradient,
  sleep_s: float  # Uniform(0, sleep_s); 0.3 in Jin et al. (arXiv:1611.04581).
  slow: tuple[tuple[float, ...], ...]  # (worker, from_s, until_s, factor).
  outages: tuple[tuple[float, float, float], ...]  # (worker, from_s, until_s).
  fair: bool  # A server's link serves all at once; else one after the other.
  shards: int  # Of the server; each adds a link, none makes a transfer faster.
  serial: bool  # A worker's link takes part in one exchange at a time.
  first: int  # A synchronous round takes the first so many, 0: all. The late
  # drop theirs and fetch the model (arXiv:1604.00981).
  timeout_s: float  # Of a synchronous round; 600 as PyTorch has it.
  target_accuracy: float  # Held out, at which to stop; 0 does not.


def cluster(
  workers: int,
  steps: int,
  preset: network.Link,
  asynchronous: bool = True,
  latency_s: float | None = None,
  bytes_per_s: float | None = None,
  full_duplex: bool = True,
  compute: str = 'constant',
  step_s: float = 0.1,
  spread: float = 0.0,
  trace: str = '',
  factors: tuple[float, ...] = (),
  stragglers: tuple[int, ...] = (),
  sleep_s: float = 0.3,
  slow: tuple[tuple[float, ...], ...] = (),
  failures: tuple[tuple[float, ...], ...] = (),
  server: str = 'fifo',
  shards: int = 1,
  serial: bool = True,
  first: int = 0,
  timeout_s: float = 600.0,
  target_accuracy: float = 0.0,
) -> Cluster:
  """A cluster as a config describes it, or a refusal.

  Args:
    workers, steps, preset: of the run; `config.link`.
    latency_s, bytes_per_s, full_duplex: in place of the preset's.
    trace: a file with a line of seconds per step: one for all workers, or one
      for each; for compute=trace.
    factors: () is 1 for all.
    failures: (worker, at_s) for good or (worker, at_s, back_s); what it was
      computing is lost, what it holds is not.
    server: 'fifo' or 'fair'.
  """
  _named('compute', compute, COMPUTE)
  _named('server', server, SERVERS)
  link = network.link(
    preset.latency_s if latency_s is None else latency_s,
    preset.bytes_per_s if bytes_per_s is None else bytes_per_s,
    full_duplex and preset.full_duplex,
  )
  found = Cluster(
    asynchronous,
    link,
    compute,
    step_s,
    spread,
    _trace(trace, steps, workers) if compute == 'trace' else None,
    factors or (1.0,) * workers,
    stragglers,
    sleep_s,
    _slow(slow, workers),
    _outages(failures, workers),
    server == 'fair',
    shards,
    serial,
    first,
    timeout_s,
    target_accuracy,
  )
  return _checked(found, workers)


def _checked(c: Cluster, workers: int) -> Cluster:
  _workers('stragglers', c.stragglers, workers)
  _at_least(
    0,
    step_s=c.step_s,
    spread=c.spread,
    sleep_s=c.sleep_s,
    timeout_s=c.timeout_s,
    first=c.first,
    target_accuracy=c.target_accuracy,
  )
  _at_least(1, shards=c.shards)
  for key in ('step_s', 'spread', 'sleep_s', 'timeout_s'):
    if not math.isfinite(getattr(c, key)):
      raise UserError(f'cluster.{key}={getattr(c, key)} is not finite.')
  if c.compute == 'uniform' and c.spread > 1:
    raise UserError(
      f'cluster.spread={c.spread} of compute=uniform is at most 1; '
      'beyond, times are negative.'
    )
  if c.target_accuracy > 1:
    raise UserError(
      f'cluster.target_accuracy={c.target_accuracy} is a share, at most 1.'
    )
  if c.first > workers:
    raise UserError(f'cluster.first={c.first} of workers={workers} never come.')
  if c.first and c.asynchronous:
    raise UserError(
      f'cluster.first={c.first} is for synchronous rounds; set '
      'cluster.asynchronous=False.'
    )
  if len(c.factors) != workers or not min(c.factors) > 0:
    raise UserError(
      f'cluster.factors={c.factors} takes a number above 0 for '
      f'each of {workers} workers.'
    )
  return c


def _named(key: str, value: str, names: Sequence[str]) -> None:
  if value not in names:
    raise UserError(f'cluster.{key}={value} is unknown{nearest(value, names)}')


def _at_least(least: float, **numbers: float) -> None:
  for key, number in numbers.items():
    if not number >= least:
      raise UserError(f'cluster.{key} is at least {least}, got {number}.')


def _workers(key: str, found: Sequence[float], workers: int) -> None:
  for worker in found:
    if worker not in range(workers):
      raise UserError(
        f'cluster.{key}: there is no worker {worker:g} among 0 to '
        f'{workers - 1}.'
      )


def _slow(slow, workers: int) -> tuple[tuple[float, ...], ...]:
  for entry in slow:
    if len(entry) != 4 or not 0 <= entry[1] <= entry[2] or not entry[3] > 0:
      raise UserError(
        f'cluster.slow: {entry} is not (worker, from_s, until_s, '
        'factor) with 0 <= from_s <= until_s and factor > 0.'
      )
  _workers('slow', [entry[0] for entry in slow], workers)
  return tuple(slow)


def _outages(failures, workers: int) -> tuple[tuple[float, float, float], ...]:
  for entry in failures:
    times = entry[1:]
    if len(times) not in (1, 2) or not 0 <= times[0] <= times[-1]:
      raise UserError(
        f'cluster.failures: {entry} is not (worker, at_s) or '
        '(worker, at_s, back_s) with 0 <= at_s <= back_s.'
      )
  _workers('failures', [entry[0] for entry in failures], workers)
  outages = tuple(
    (int(e[0]), e[1], e[2] if len(e) == 3 else math.inf) for e in failures
  )
  if {who for who, _, until in outages if until == math.inf} >= {
    *range(workers)
  }:
    raise UserError(
      'cluster.failures leaves no worker; let one run on or come back.'
    )
  return outages


def _trace(name: str, steps: int, workers: int) -> np.ndarray:
  path = pathlib.Path(name)
  if not path.is_file():
    raise UserError(
      f'cluster.trace={name!r} is no file; compute=trace needs one '
      'with a line of seconds per step.'
    )
  try:
    lines = path.read_text().replace(',', ' ').splitlines()
    seconds = np.loadtxt(lines, ndmin=2)
  except ValueError as error:
    raise UserError(f'{path}: {error}; lines of seconds are meant.') from error
  if seconds.shape[1] not in (1, workers):
    raise UserError(
      f'{path} has {seconds.shape[1]} columns; it takes 1, or one '
      f'for each of {workers} workers.'
    )
  if not (np.isfinite(seconds) & (seconds >= 0)).all():
    raise UserError(f'{path} has times that are negative or no numbers.')
  if len(seconds) < steps:
    raise UserError(
      f'{path} has {len(seconds)} lines, steps={steps} need as '
      'many; a shorter run or a longer trace will do.'
    )
  return seconds
