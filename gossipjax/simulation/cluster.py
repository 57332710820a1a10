"""The simulated cluster of virtual time: `config.cluster`, checked.

Speed, stragglers, failures and links of the workers, and the links of a server.
"""

import math
from typing import NamedTuple

import numpy as np

from gossipjax import network
from gossipjax.errors import UserError
from gossipjax.simulation.cluster_checks import (
  at_least,
  check_compute,
  check_first,
  check_name,
  check_workers,
  outages,
  slow_periods,
)
from gossipjax.simulation.trace import read_trace

SERVERS = ('fifo', 'fair')


class Cluster(NamedTuple):
  """`config.cluster` in the form that the simulation uses.

  Attributes:
    asynchronous: whether workers continue without waiting for each other; if
      False, every worker waits for all others after each step.
    link: the link of every worker, and of every shard of a server.
    compute: distribution of a gradient's seconds: cluster_checks.COMPUTE.
    step_s: mean of these seconds; unused with compute=trace.
    spread: uniform: half the width over the mean; gamma: the standard
      deviation over the mean; lognormal: sigma.
    trace: f64[steps, 1 or workers], measured seconds of each gradient.
    factors: factor on the seconds of each worker.
    stragglers: workers that sleep Uniform(0, sleep_s) after each gradient.
    sleep_s: their longest sleep; 0.3 in Jin et al. (arXiv:1611.04581).
    slow: (worker, from_s, until_s, factor on seconds of gradients begun then).
    outages: (worker, from_s, until_s), the earliest first; a gradient is lost,
      also one that waits for a link; a transfer that has begun continues.
    fair: whether a server's link serves all transfers at once; if False, one
      after the other. This and the next two affect asynchronous workers only.
    shards: of the server; each adds a link but makes no transfer faster. In
      synchronous rounds a server has one link.
    serial: whether a worker's link takes part in one exchange at a time.
    first: number of workers that a synchronous round waits for; 0 is all. Late
      workers drop their gradient and fetch the model (arXiv:1604.00981), one
      after the other over the link of one worker of the round.
    timeout_s: longest wait in a synchronous round; 600 is PyTorch's default.
    target_accuracy: held-out accuracy that ends the run; 0 is none.
    target_score, target: name and value of a held-out score that ends the run;
      '' is none.
  """

  asynchronous: bool
  link: network.Link
  compute: str
  step_s: float
  spread: float
  trace: np.ndarray | None
  factors: tuple[float, ...]
  stragglers: tuple[int, ...]
  sleep_s: float
  slow: tuple[tuple[float, ...], ...]
  outages: tuple[tuple[float, float, float], ...]
  fair: bool
  shards: int
  serial: bool
  first: int
  timeout_s: float
  target_accuracy: float
  target_score: str = ''
  target: float = 0.0


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
  target_score: str = '',
  target: float = 0.0,
) -> Cluster:
  """Returns the checked `Cluster`, which documents the arguments not listed.

  Args:
    workers, steps: of the run.
    preset: the link of `config.link`.
    latency_s, bytes_per_s, full_duplex: of the link, instead of the preset's.
    trace: file for compute=trace, a line of seconds per step: one number for
      all workers, or one for each.
    factors: () is 1 for all workers.
    failures: (worker, at_s) for good or (worker, at_s, back_s). It loses its
      current gradient; with config.engine its whole state, see monitor.py.
    server: 'fifo' or 'fair'.
  """
  check_name('server', server, SERVERS)
  check_compute(compute, spread, trace)
  link = network.link(
    preset.latency_s if latency_s is None else latency_s,
    preset.bytes_per_s if bytes_per_s is None else bytes_per_s,
    full_duplex and preset.full_duplex,
  )
  if preset.group:
    link = network.with_group(link, preset.group)
  unchecked = Cluster(
    asynchronous,
    link,
    compute,
    step_s,
    spread,
    read_trace(trace, steps, workers) if compute == 'trace' else None,
    factors or (1.0,) * workers,
    stragglers,
    sleep_s,
    slow_periods(slow, workers),
    outages(failures, workers),
    server == 'fair',
    shards,
    serial,
    first,
    timeout_s,
    target_accuracy,
    target_score,
    target,
  )
  return _checked(unchecked, workers)


def _checked(c: Cluster, workers: int) -> Cluster:
  check_workers('stragglers', c.stragglers, workers)
  at_least(
    0,
    step_s=c.step_s,
    spread=c.spread,
    sleep_s=c.sleep_s,
    timeout_s=c.timeout_s,
    target_accuracy=c.target_accuracy,
  )
  at_least(1, shards=c.shards)
  for key in ('step_s', 'spread', 'sleep_s', 'timeout_s'):
    if not math.isfinite(getattr(c, key)):
      raise UserError(f'cluster.{key}={getattr(c, key)} is not finite.')
  _check_target(c)
  check_first(c.first, workers, c.asynchronous)
  if len(c.factors) != workers or not min(c.factors) > 0:
    raise UserError(
      f'cluster.factors={c.factors} takes a number above 0 for '
      f'each of {workers} workers.'
    )
  return c


def _check_target(c: Cluster) -> None:
  if c.target_accuracy > 1:
    raise UserError(
      f'cluster.target_accuracy={c.target_accuracy} is a share, at most 1.'
    )
  if c.target_score and c.target_accuracy:
    raise UserError(
      f'cluster.target_accuracy={c.target_accuracy} and cluster.target_score='
      f'{c.target_score} both end the run; set only one of them.'
    )
  if c.target_score and not c.target:
    raise UserError(
      f'cluster.target_score={c.target_score} needs cluster.target, the value '
      'at which the run ends; 0 is none.'
    )
  if c.target and not c.target_score:
    raise UserError(
      f'cluster.target={c.target} needs cluster.target_score, the name of a '
      'held-out score.'
    )
