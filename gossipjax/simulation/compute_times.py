"""How long each worker computes, and when it is down.

A time depends on seed, worker and step alone, so that all strategies run on
the same machines.
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
    back_s: when the worker can begin it again; infinite if never, also past
      the end of a trace.
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
    """When a worker that fails within this time is up again; None if it does
    not."""
    for who, since, until in self._cluster.outages:
      if who == worker and since_s <= since < until_s:
        return until
    return None

  def failures(self) -> list[tuple[int, float]]:
    """Which worker fails when, the earliest first."""
    return [(int(who), since) for who, since, _ in self._cluster.outages]

  def up(self, now: float) -> list[int]:
    """The workers that are up at `now`; all if each is down."""
    everyone = range(self.workers)
    return [i for i in everyone if self.back(i, now) == now] or [*everyone]

  def is_over(self, step: int) -> bool:
    """Whether a trace has no line for a worker's own step."""
    return self._cluster.trace is not None and step >= len(self._cluster.trace)

  def attempt(self, worker: int, step: int, now: float) -> Attempt:
    """The gradient of a worker's own step, begun at `now`.

    Past the end of a trace there is none: who has used all of it computes no
    more, which only matters where a run needs more gradients than that.
    """
    if self.is_over(step):
      return Attempt(math.inf, math.inf)
    up = self.back(worker, now)
    if up > now:
      return Attempt(math.inf, up)
    took = self.seconds(worker, step, now)
    done = now + took
    if not math.isfinite(done) or (took > 0 and done == now):
      raise UserError(
        f'Worker {worker}: {took:.6g} s of computing after {now:.6g} s of '
        'virtual time overflow its clock or vanish in its rounding; check the '
        'seconds of config.cluster.'
      )
    for who, since, until in self._cluster.outages:
      if who == worker and now < since < done:
        return Attempt(math.inf, until)
    return Attempt(done, now)

  def finished(self, worker: int, step: int, now: float) -> tuple[float, float]:
    """When a gradient is done that is begun again after each outage, and when
    that was; infinite if never."""
    done, back = math.inf, now
    while math.isinf(done) and math.isfinite(back):
      now = back
      done, back = self.attempt(worker, step, now)
      if back <= now:
        break
    return done, now

  def seconds(self, worker: int, step: int, now: float) -> float:
    """Seconds of a gradient begun at `now`, a straggler's sleep included."""
    c, rng = self._cluster, self.rng(worker, step, what=0)
    took = self._drawn(worker, step, rng) * c.factors[worker]
    for who, since, until, factor in c.slow:
      if who == worker and since <= now < until:
        took *= factor
    if worker in c.stragglers:
      took += rng.uniform(0, c.sleep_s)
    return took

  def past_trace(self, worker: int) -> UserError:
    """The mistake of a trace that ends before a worker does."""
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
    if c.spread < 1e-9:  # Whose squares are no numbers to draw with.
      return c.step_s
    if c.compute == 'uniform':
      return c.step_s * rng.uniform(1 - c.spread, 1 + c.spread)
    if c.compute == 'lognormal':
      return c.step_s * rng.lognormal(-(c.spread**2) / 2, c.spread)
    if c.compute == 'gamma':
      return c.step_s * rng.gamma(c.spread**-2, c.spread**2)
    return c.step_s
