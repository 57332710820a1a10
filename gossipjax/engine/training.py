"""Trains on processes that do not wait for each other; yields records.

The rounds are those of virtual time, cut between the processes; time, staleness
and the peers of each round are those that really occur.
"""

import time
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from gossipjax.aggregator import Tree
from gossipjax.distributed.interface_counters import Meter
from gossipjax.engine import clock, ray_cluster
from gossipjax.engine.messages import WAIT_S
from gossipjax.engine.setup import of_run
from gossipjax.simulation import goal
from gossipjax.simulation.separate_fleet import Separate
from gossipjax.simulation.timeline import TimeUsage
from gossipjax.training import evaluate, loop, model_state
from gossipjax.training.checkpoint import Store
from gossipjax.training.ledger import Ledger
from gossipjax.training.record import Record
from gossipjax.training.run import Run

MIN_POLL_S, MAX_POLL_S = 0.002, 0.05  # Between two requests to the workers.


def train(
  config: ConfigDict,
  run: Run,
  store: Store | None = None,
  interrupted: Callable[[], bool] = lambda: False,
  spans: Callable[[list], None] = lambda spans: None,
  notify: Callable[[str], None] = lambda sentence: None,
) -> Generator[Record, None, None]:
  """Trains as `simulate.simulate` does, but in real time.

  Args:
    config: of the run; every process resolves it for itself.
    run: the same, resolved.
    store: of checkpoints; None keeps none.
    interrupted: called after every step; True stops the run.
    spans: called at the end with the workers' first spans, see `TimeUsage`.
    notify: called with a sentence for each process that died or came back.

  Raises:
    UserError: there is no Ray, a process cannot be replaced, or none answers.
    Diverged: the loss became NaN or Inf.
    Interrupted: `interrupted` returned True; a `store` keeps a checkpoint.
  """
  with ray_cluster.connected():
    training = RealTime(config, run, store, notify)
    yield from loop.records(training, run, store, interrupted)
    spans(training.usage.spans)


class RealTime:
  """Workers in processes of their own; a `loop.Training`."""

  def __init__(
    self,
    config: ConfigDict,
    run: Run,
    store: Store | None,
    notify: Callable[[str], None],
  ):
    from gossipjax.engine.crew import Crew
    from gossipjax.engine.monitor import Monitor

    self._entered = time.perf_counter()
    self._setup = setup = of_run(run)
    self._run, self._ledger = run, Ledger({}, run.workers)
    self.usage, self._before_s, self._faults = TimeUsage(run.workers), 0.0, 0
    self._used, held, steps = 0, setup.beginning(), [0] * run.workers
    if store is not None and store.last() is not None:
      state, totals = store.load(setup.fleet.state(held))
      held, steps = setup.fleet.hold(state), totals['steps']
      self._ledger.from_json(totals['ledger'])
      self.usage.from_json(totals['hours'])
      self._before_s, self._faults = totals['seconds'], totals['faults']
      self._used = sum(steps)  # May exceed the steps counted so far.
    self._entered -= self._ledger.wall_s
    self._before = self._used
    self._score = evaluate.held_out_scorer(run.task, run.workers, run.executor)
    self.scored = evaluate.ScoredModel()
    self._mean_state = model_state.averaging(run.executor, run.inner)
    self._goal = goal.of_run(run)
    self._stopwatch = loop.Stopwatch(Meter(), self._ledger.step)
    self._rate: float | None = None
    self._crew = Crew(config.to_dict(), setup, held, steps)
    self._crew.begin()
    began, self._waiting = clock.now() - self._before_s, []
    # An outage that a checkpoint fell into begins, and counts, once more.
    outages = [o for o in run.cluster.outages if o[2] > self._before_s]
    self._faults -= sum(o[1] <= self._before_s for o in outages)
    self._monitor = Monitor(self._crew, outages, notify, began)
    self._held: Separate | None = None  # While the clock stands.
    self._crew.start_training(began)

  @property
  def step(self) -> int:
    """Steps done."""
    return self._ledger.step

  def advance(self) -> bool:
    if self._held is not None:
      self._monitor.began += self._crew.resume()
      self._held = None
    self._stopwatch.start()
    needed = (self.step + 1) * self._run.workers
    while self._used < needed:
      if not self._waiting:
        self._waiting = self._monitor.news(self._pause_s())
      while self._waiting and self._used < needed:
        self._enter(self._waiting.pop(0))
    self._ledger.step += 1
    self._stopwatch.count()
    return False

  def _pause_s(self) -> float:
    """Seconds until the next request: half the time to the next record."""
    run, now = self._run, clock.now() - self._monitor.began
    periods = filter(None, (run.log_every, run.eval_every, run.steps))
    left = min(every - self.step % every for every in periods) * run.workers
    rate = (self._used - self._before) / now if now > 0 else 0.0
    return min(max(0.5 * left / rate if rate else 0.0, MIN_POLL_S), MAX_POLL_S)

  def _still(self) -> Separate:
    """The states of all at one moment. The clock stands until the next step:
    no worker trains during an evaluation or a checkpoint."""
    if self._held is None:
      self._crew.pause()
      # First answers to requests from before the pause, then the rest.
      entries = [x for _ in range(2) for x in self._monitor.receive(WAIT_S)]
      for entry in [*self._waiting, *entries]:
        self._enter(entry)
      self._waiting, self._held = [], self._crew.read()
    return self._held

  def _enter(self, entry) -> None:
    """Enters a used gradient, and what its round sent, into the ledger."""
    self._used += 1
    self._ledger.add_round(
      entry.workers, np.array([entry.loss], np.float32), entry.sent
    )
    self.usage.add_staleness(entry.stale)
    for kind, since, until in entry.spans:
      self.usage.add(entry.workers[0], kind, since, until)

  def settle(self) -> None:
    seconds, self._rate, _ = self._stopwatch.stop()
    self._ledger.train_s += seconds
    self._ledger.wall_s = time.perf_counter() - self._entered

  def record(self, scored: bool) -> Record:
    scores: dict[str, Any] = {}
    now = clock.now() - self._monitor.began
    if scored:
      scores = self._scores(self._still())
      now = self._crew.paused_at - self._monitor.began
    link = next(iter(self._run.links))
    self._ledger.comm_s = {link: float(self.usage.spent_s['transfer'].max())}
    return loop.ledger_record(
      self._ledger,
      self._run,
      self._rate,
      scores
      | self.usage.to_record()
      | dict(virtual_s=now, faults=self._faults + self._monitor.faults),
    )

  def _scores(self, held: Separate) -> dict[str, Any]:
    """Held-out scores; the mean model is over the workers that are alive."""
    fleet, alive = self._setup.fleet, self._crew.alive()
    of = lambda ids: held._replace(singles=tuple(held.singles[i] for i in ids))
    states = fleet.model_state(of(alive))
    states = self._mean_state(states, self._ledger, alive)
    given = states, self._score, self.scored, fleet.center(held), 0 in alive
    return evaluate.scores(fleet.params(of(alive)), *given)

  def final_record(self) -> None:
    """Returns None: training ends with its last step."""

  def reached(self, record: Record) -> bool:
    """Whether a record reaches the goal of the run."""
    return self._goal is not None and self._goal.reached(record)

  def state(self) -> tuple[Tree, dict[str, Any]]:
    held = self._still()
    self._crew.keep()
    return self._setup.fleet.state(held), {
      'ledger': self._ledger.to_json(),
      'hours': self.usage.to_json(),
      'steps': self._crew.steps,
      'seconds': self._crew.paused_at - self._monitor.began,
      'faults': self._faults + self._monitor.faults,
    }
