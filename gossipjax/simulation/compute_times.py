"""How long each worker computes, and when it is down.

Random draws depend only on seed, worker and step, so that all strategies run
on the same machines.
"""

import math
from typing import NamedTuple

import numpy as np

from gossipjax.errors import UserError
from gossipjax.simulation.cluster import Cluster


class Attempt(NamedTuple):
  """A gradient that a worker begins to compute.

  Attributes:
    done_s: when it is done; infinite if an outage destroys it.
    back_s: when the worker can begin it again, or began it if no outage
      destroys it; infinite if never, also past the end of a trace.
  """

  done_s: float
  back_s: float


class ComputeTimes:
  """The computing times and outages of all workers."""

  def __init__(self, cluster: Cluster, workers: int, seed: int):
    self.workers, self._cluster, self._seed = workers, cluster, seed

  def rng(self, worker: int, step: int, what: int) -> np.random.Generator:
    """A random generator for one purpose (`what`) of one step of a worker."""
    return np.random.default_rng((self._seed, what, worker, step))

  def back(self, worker: int, now: float) -> float:
    """When a worker is up again; `now` if it is up."""
    for who, since, until in self._cluster.outages:
      if who == worker and since <= now < until:
        return until
    return now

  def failed(self, worker: int, since_s: float, until_s: float) -> float | None:
    """When a worker that fails in [since_s, until_s) is up again; None if it
    does not fail."""
    for who, since, until in self._cluster.outages:
      if who == worker and since_s <= since < until_s:
        return until
    return None

  def failures(self) -> list[tuple[int, float]]:
    """(worker, seconds) of each failure, the earliest first."""
    return [(int(worker), since) for worker, since, _ in self._cluster.outages]

  def up(self, now: float) -> list[int]:
    """The workers that are up at `now`; all workers if none is."""
    everyone = range(self.workers)
    return [i for i in everyone if self.back(i, now) == now] or [*everyone]

  def is_over(self, step: int) -> bool:
    """Whether there is a trace that ends before a worker's own step."""
    return self._cluster.trace is not None and step >= len(self._cluster.trace)

  def attempt(self, worker: int, step: int, now: float) -> Attempt:
    """Returns the attempt at a gradient of a worker's own step at `now`.

    A worker that has used its whole trace computes no more gradients, which
    only matters if the run needs more than the trace has.
    """
    if self.is_over(step):
      return Attempt(math.inf, math.inf)
    up = self.back(worker, now)
    if up > now:
      return Attempt(math.inf, up)
    compute_s = self.seconds(worker, step, now)
    done = now + compute_s
    if not math.isfinite(done) or (compute_s > 0 and done == now):
      raise UserError(
        f'Worker {worker}: {compute_s:.6g} s of computing after {now:.6g} s of '
        'virtual time overflow its clock or vanish in its rounding; check the '
        'seconds of config.cluster.'
      )
    for who, since, until in self._cluster.outages:
      if who == worker and now < since < done:
        return Attempt(math.inf, until)
    return Attempt(done, now)

  def finished(self, worker: int, step: int, now: float) -> tuple[float, float]:
    """When a gradient is done (infinite if never) and when its last attempt
    began, if it is begun again after each outage."""
    done, back = math.inf, now
    while math.isinf(done) and math.isfinite(back):
      now = back
      done, back = self.attempt(worker, step, now)
      if back <= now:
        break
    return done, now

  def seconds(self, worker: int, step: int, now: float) -> float:
    """Seconds of a gradient begun at `now`, including a straggler's sleep."""
    c, rng = self._cluster, self.rng(worker, step, what=0)
    compute_s = self._drawn(worker, step, rng) * c.factors[worker]
    for who, since, until, factor in c.slow:
      if who == worker and since <= now < until:
        compute_s *= factor
    if worker in c.stragglers:
      compute_s += rng.uniform(0, c.sleep_s)
    return compute_s

  def past_trace(self, worker: int) -> UserError:
    """The error for a trace with fewer steps than a worker takes."""
    return UserError(
      f'cluster.trace has {len(self._cluster.trace)} steps, but worker '
      f'{worker} takes more; give a longer trace.'
    )

  def _drawn(self, worker: int, step: int, rng: np.random.Generator) -> float:
    c = self._cluster
    if c.compute == 'trace':
      if step >= len(c.trace):
        raise self.past_trace(worker)
      return float(c.trace[step, worker % c.trace.shape[1]])
    if c.spread < 1e-9:  # Gamma needs a finite shape below.
      return c.step_s
    if c.compute == 'uniform':
      return c.step_s * rng.uniform(1 - c.spread, 1 + c.spread)
    if c.compute == 'lognormal':
      return c.step_s * rng.lognormal(-(c.spread**2) / 2, c.spread)
    if c.compute == 'gamma':
      return c.step_s * rng.gamma(c.spread**-2, c.spread**2)
    return c.step_s
