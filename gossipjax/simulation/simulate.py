"""Training in virtual time: the learning is real, only time is modelled.

No training algorithm is here: a timeline chooses the workers of the next round,
and a fleet runs it with the same `worker.update` as everywhere else.
"""

import dataclasses
import time
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from gossipjax.aggregator import AsyncExchange, Strategy, Tree, identity
from gossipjax.distributed.interface_counters import Meter
from gossipjax.simulation import goal
from gossipjax.simulation.compute_times import ComputeTimes
from gossipjax.simulation.events import Asynchronous
from gossipjax.simulation.fleet import rows_of
from gossipjax.simulation.round_runners import round_runner_of
from gossipjax.simulation.rounds import Synchronous
from gossipjax.simulation.timeline import FetchingRunner, Stalled
from gossipjax.training import (
  evaluate,
  loop,
  model_state,
  part_checks,
  stream,
  worker_program,
)
from gossipjax.training.checkpoint import Store
from gossipjax.training.ledger import Ledger
from gossipjax.training.record import Record
from gossipjax.training.run import Run

Timeline = Asynchronous | Synchronous


def simulate(
  run: Run,
  store: Store | None = None,
  interrupted: Callable[[], bool] = lambda: False,
  spans: Callable[[list], None] = lambda spans: None,
) -> Generator[Record, None, None]:
  """Trains as `train` does, on the simulated cluster `run.cluster`.

  A step is one gradient per worker on average. The run ends early when it
  reaches its goal, or when a round has waited for a worker until the time-out.

  Args:
    run: what to train.
    store: of checkpoints; None keeps none.
    interrupted: called after every step; True stops the run.
    spans: called at the end with the workers' first spans, see `TimeUsage`.

  Raises:
    Diverged: the loss became NaN or Inf.
    Interrupted: `interrupted` returned True; a checkpoint was kept, if there is
      a store.
  """
  training = VirtualTime(run, store)
  yield from loop.records(training, run, store, interrupted)
  spans(training.timeline.usage.spans)


def exchange_of(run: Run, whose: str = 'the strategy') -> AsyncExchange | None:
  """Returns how asynchronous workers exchange; None if all wait for all."""
  if not run.cluster.asynchronous:
    return None
  return part_checks.async_exchange(whose, run.strategy, run.workers)


def with_exchange(run: Run, exchange: AsyncExchange | None) -> Run:
  """Returns the run with the strategy of its exchange, if it has one."""
  if exchange is None:
    return run
  among_few = Strategy(identity(), exchange.parameters)
  return dataclasses.replace(run, strategy=among_few)


def timeline_of(
  run: Run, exchange: AsyncExchange | None, runner: FetchingRunner
) -> Timeline:
  """Makes the timeline of a run, at virtual time 0."""
  c = run.cluster
  compute_times = ComputeTimes(c, run.workers, run.seed)
  if exchange is None:
    return Synchronous(compute_times, c.link, runner, c.first, c.timeout_s)
  return Asynchronous(
    compute_times, c.link, exchange, runner, c.fair, c.shards, c.serial
  )


class VirtualTime:
  """Workers on a timeline; a `loop.Training`."""

  def __init__(self, run: Run, store: Store | None):
    began, exchange = time.perf_counter(), exchange_of(run)
    run = with_exchange(run, exchange)
    program = worker_program.worker_program(run)
    self._run, self._ledger = run, Ledger({}, run.workers)
    workers, examples = worker_program.start(run, program)
    feed = stream.feed(run, examples)
    self._runner = round_runner_of(
      program, exchange, workers, feed, self._ledger
    )
    self.timeline = timeline_of(run, exchange, self._runner)
    if store is not None and store.last() is not None:
      self._runner.state, totals = store.load(self._runner.state)
      self._ledger.from_json(totals['ledger'])
      self.timeline.from_json(totals['clock'])
    self._score = evaluate.held_out_scorer(run.task, run.workers, run.executor)
    self.scored = evaluate.ScoredModel()
    self._mean_state = model_state.averaging(run.executor, run.inner)
    self._began = began - self._ledger.wall_s
    # No bytes leave a network interface.
    self._stopwatch = loop.Stopwatch(Meter(), self._ledger.step)
    self._rate: float | None = None
    self._stalled: Stalled | None = None
    self._lost: int | None = None
    self._goal = goal.of_run(run)

  @property
  def step(self) -> int:
    """Steps done."""
    return self._ledger.step

  def advance(self) -> bool:
    self._stopwatch.start()
    try:
      while self.timeline.rounds < self.step + 1:
        self.timeline.next()
      self._ledger.step += 1
    except Stalled as stalled:
      self._stalled = stalled
    self._stopwatch.count()
    return self._stalled is not None

  def final_record(self) -> Record | None:
    """Returns a record at the time-out of a stalled round, None without one;
    the model of that record was complete long before the time-out."""
    timeline, stalled = self.timeline, self._stalled
    if stalled is None or not isinstance(timeline, Synchronous):
      return None
    timeline.give_up()
    self._lost = stalled.worker
    return self.record(scored=True)

  def settle(self) -> None:
    seconds, self._rate, _ = self._stopwatch.stop()
    self._ledger.train_s += seconds
    self._ledger.wall_s = time.perf_counter() - self._began

  def record(self, scored: bool) -> Record:
    usage, scores = self.timeline.usage, self._scores() if scored else {}
    link = next(iter(self._run.links))
    self._ledger.comm_s = {link: float(usage.spent_s['transfer'].max())}
    return loop.ledger_record(
      self._ledger,
      self._run,
      self._rate,
      scores
      | usage.to_record()
      | dict(
        virtual_s=self.timeline.now,
        link_utilisation=self.timeline.utilisation,
        lost_worker=self._lost,
      ),
    )

  def _scores(self) -> dict[str, Any]:
    """Held-out scores; the mean model is over the workers that are up, without
    those that hold an older model because a round did not wait for them."""
    at, run = self._runner, self._run
    times = ComputeTimes(run.cluster, run.workers, run.seed)
    up = times.up(self.timeline.now)
    if isinstance(self.timeline, Synchronous):
      up = [i for i in up if i not in self.timeline.behind] or up
    who = np.array(up) if len(up) < run.workers else None  # All.
    states = self._mean_state(rows_of(at.model_state, who), self._ledger, who)
    params, first = rows_of(at.params, who), 0 in up
    return evaluate.scores(
      params, states, self._score, self.scored, at.center, first
    )

  def reached(self, record: Record) -> bool:
    """Whether a record reaches the goal of the run."""
    return self._goal is not None and self._goal.reached(record)

  def state(self) -> tuple[Tree, dict[str, Any]]:
    totals = {
      'ledger': self._ledger.to_json(),
      'clock': self.timeline.to_json(),
    }
    return self._runner.state, totals
