"""Training in virtual time: the learning is real, only time is modelled.

There is no algorithm here: a timeline says who comes to the next round, a fleet
plays it through the same `worker.update` as everywhere else.
"""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gossipjax.aggregator import AsyncExchange, Strategy, Tree, identity
from gossipjax.config import resolve
from gossipjax.distributed import interface_counters
from gossipjax.errors import UserError
from gossipjax.simulation.cluster import Cluster, cluster
from gossipjax.simulation.compute_times import ComputeTimes
from gossipjax.simulation.events import Asynchronous
from gossipjax.simulation.fleet import Fleet
from gossipjax.simulation.rounds import Synchronous
from gossipjax.simulation.separate_fleet import AsynchronousFleet
from gossipjax.simulation.stacked_fleet import SynchronousFleet
from gossipjax.simulation.timeline import Player, Stalled
from gossipjax.training import evaluate, worker_program
from gossipjax.training.checkpoint import Store
from gossipjax.training.ledger import Ledger
from gossipjax.training.record import Record
from gossipjax.training.train import (
  Interrupted,
  Stopwatch,
  due,
  record_of,
  scores_of,
)

Clock = Asynchronous | Synchronous


class Plan(NamedTuple):
  """What a config asks for; `form` is None if everybody waits."""

  cluster: Cluster
  strategy: Strategy
  form: AsyncExchange | None


def plan(config) -> Plan:
  """The machines and what runs on them, or a refusal."""
  preset = next(iter(resolve.links(config.link).values()))
  found = resolve.call(
    cluster, config.cluster, 'cluster', config.workers, config.steps, preset
  )
  strategy = resolve.strategy(config.strategy)
  if not found.asynchronous:
    return Plan(found, strategy, None)
  if strategy.async_exchange is None:
    raise UserError(
      f'strategy {config.strategy.name} needs all workers at once; '
      'set cluster.asynchronous=False.'
    )
  form = strategy.async_exchange(config.workers)
  return Plan(found, Strategy(identity(), form.parameters), form)


def clock(plan: Plan, config, player: Player) -> Clock:
  """A timeline at its beginning."""
  c = plan.cluster
  compute_times = ComputeTimes(plan.cluster, config.workers, config.seed)
  if plan.form is None:
    return Synchronous(compute_times, c.link, player, c.first, c.timeout_s)
  return Asynchronous(
    compute_times, c.link, plan.form, player, c.fair, c.shards, c.serial
  )


def fleet(
  plan: Plan, run: worker_program.Session, config, ledger: Ledger
) -> Fleet:
  """All workers at the beginning."""
  if plan.form is None:
    return SynchronousFleet(run, config, ledger)
  return AsynchronousFleet(run, config, plan.form.way, ledger)


def simulate(
  config,
  store: Store | None = None,
  interrupted: Callable[[], bool] = lambda: False,
  spans: Callable[[list], None] = lambda spans: None,
) -> Iterator[Record]:
  """As `train`, on the machines of `config.cluster`.

  A step is a gradient of each worker, on average. The run ends early at the
  target accuracy, or when a round has waited for somebody until the time-out.

  Args:
    config: see gossipjax/config/defaults.py.
    store: where to keep checkpoints; None keeps none.
    interrupted: asked after every step; True stops the run.
    spans: told in the end what the workers did at first, see `Hours`.
  """
  began, planned = time.perf_counter(), plan(config)
  player, timeline, ledger, score = _stand(planned, config, store)
  began, over = began - ledger.wall_s, False
  watch = Stopwatch(
    interface_counters.Meter()
  )  # Of an interface that nothing leaves.
  while ledger.step < config.steps and not over:
    watch.start()
    lost = _advance(timeline, ledger)
    watch.count()
    stop, over = interrupted(), lost is not None
    log, test, keep = (
      over or due(p, ledger.step, config.steps)
      for p in (config.log_every, config.eval_every, config.checkpoint_every)
    )
    save = store is not None and (keep or stop)
    if log or test or save or stop:
      seconds, rate, _ = watch.stop()
      ledger.train_s += seconds
      ledger.wall_s = time.perf_counter() - began
    if log or test:
      rate = rate and rate * config.workers * config.batch_size
      scores = scores_of(player.params, score, player.center) if test else {}
      yield _record(ledger, timeline, config, rate, scores, lost)
      over |= _reached(planned.cluster, scores)
    # Who resumes gets to a premature end again, and sees that it is one.
    if save and not over:
      store.save(
        ledger.step,
        player.state,
        {'ledger': ledger.to_json(), 'clock': timeline.to_json()},
      )
    if stop:
      raise Interrupted(ledger.step)
  spans(timeline.hours.spans)


def _stand(planned: Plan, config, store: Store | None):
  """Fleet, timeline and ledger, as `store` has them, and how to score."""
  run = worker_program.make(config, planned.strategy)
  ledger = Ledger({}, config.workers)
  player = fleet(planned, run, config, ledger)
  timeline = clock(planned, config, player)
  if store is not None and store.last() is not None:
    player.state, totals = store.load(player.state)
    ledger.from_json(totals['ledger'])
    timeline.from_json(totals['clock'])
  score = evaluate.held_out(run.task, config.workers, run.executor)
  return player, timeline, ledger, score


def _advance(timeline: Clock, ledger: Ledger) -> int | None:
  """One step; returns for whom a round waited in vain, if it did."""
  try:
    while timeline.rounds < ledger.step + 1:
      timeline.next()
  except Stalled as stalled:
    if not ledger.step:
      raise
    return stalled.worker
  ledger.step += 1
  return None


def _reached(cluster: Cluster, scores: dict[str, float]) -> bool:
  return 0 < cluster.target_accuracy <= scores.get('test_accuracy', -1)


def _record(
  ledger: Ledger,
  timeline: Clock,
  config,
  rate: float | None,
  scores: dict[str, float],
  lost: int | None,
) -> Record:
  hours = timeline.hours
  stale, most = hours.take_staleness()
  name = config.link if isinstance(config.link, str) else 'custom'
  ledger.comm_s = {name: float(hours.spent_s['transfer'].max())}
  return record_of(ledger, rate, scores)._replace(
    virtual_s=timeline.now,
    staleness=stale,
    most_stale=most,
    compute_s=hours.spent_s['compute'].tolist(),
    waiting_s=hours.spent_s['wait'].tolist(),
    transfer_s=hours.spent_s['transfer'].tolist(),
    link_utilisation=timeline.utilisation,
    lost_worker=lost,
  )


def rehearse(config) -> Tree:
  """Traces an event without computing it, to refuse what would fail later.

  Returns:
    Shapes and dtypes of the parameters.
  """
  planned = plan(config)
  return worker_program.rehearse(
    config, planned.strategy, 2 if planned.form else None
  )
