"""Synchronous training, as a stream of records."""

import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import executors
from gossipjax.aggregator import Strategy, Tree
from gossipjax.config import resolve
from gossipjax.distributed import interface_counters
from gossipjax.traffic import digits, from_digits
from gossipjax.training import evaluate, worker_program
from gossipjax.training.checkpoint import Store
from gossipjax.training.ledger import Ledger
from gossipjax.training.record import Record


class Interrupted(Exception):
  """Somebody asked the run to stop; it stopped after `step`."""

  def __init__(self, step: int):
    super().__init__(step)
    self.step = step


class Stopwatch:
  """Seconds spent in steps, and bytes that left in them.

  The first step, which compiles, takes no time.
  """

  def __init__(
    self, meter: interface_counters.Meter = interface_counters.Meter()
  ):
    self._meter = meter
    self._since, self._steps, self._warm = None, 0, False

  def start(self) -> None:
    """Before a step; does nothing while running."""
    self._since = self._since or time.perf_counter()
    self._meter.start()

  def count(self) -> None:
    """After a step."""
    if self._warm:
      self._steps += 1
    else:
      self._warm, self._since = True, time.perf_counter()

  def stop(self) -> tuple[float, float | None, np.ndarray | None]:
    """Seconds, steps per second and wire bytes since the start."""
    seconds, steps = time.perf_counter() - self._since, self._steps
    self._since, self._steps = None, 0
    return seconds, steps / seconds if steps else None, self._meter.stop()


def scores_of(
  params: Tree,
  score: Callable[[Tree], dict[str, float]],
  center: Tree | None = None,
) -> dict[str, float]:
  """The held-out fields of a record, of a server's model if it has one."""
  mean, distance = evaluate.mean_and_distance(params)
  distance, of_mean = float(distance), score(mean if center is None else center)
  # Equal replicas are their mean: no need to score the same model twice.
  alike = distance == 0 and center is None
  of_first = of_mean if alike else score(jax.tree.map(lambda x: x[0], params))
  return {
    'consensus_distance': distance,
    **{f'test_{k}': v for k, v in of_mean.items()},
    **{f'worker0_{k}': v for k, v in of_first.items()},
  }


def record_of(ledger: Ledger, examples_per_s: float | None, scores) -> Record:
  """Where the ledger stands; what is not known stays None."""
  return Record(
    **dict.fromkeys(Record._fields)
    | scores
    | dict(
      step=ledger.step,
      train_loss=ledger.take_loss(),
      bytes_sent=ledger.bytes.tolist(),
      bytes_received=ledger.received.tolist(),
      messages=ledger.messages.tolist(),
      wire_bytes=ledger.wire,
      comm_s=dict(ledger.comm_s),
      wall_s=ledger.wall_s,
      train_s=ledger.train_s,
      examples_per_s=examples_per_s,
    )
  )


def _compact(step):
  """`Session.step` with its traffic in one array."""

  def program(worker, examples, t, key):
    worker, (loss, sent) = step(worker, examples, t=t, key=key)
    return worker, (loss, digits(sent))

  return program


def _fetch(pending):
  """Losses and traffic of some steps, on the host: leaves [workers, steps]."""
  losses, sent = executors.gather(
    jax.tree.map(
      lambda *steps: np.stack(steps, axis=1), *executors.rows(pending)
    )
  )
  return losses, from_digits(sent)


def due(period: int, done: int, steps: int) -> bool:
  """Every `period` steps (never if 0), and at the end."""
  return done == steps or (period > 0 and done % period == 0)


def _settle(ledger: Ledger, pending, watch: Stopwatch, began: float):
  """Enters the pending steps; returns steps per second, None if unknown."""
  jax.block_until_ready(pending)
  seconds, steps_per_s, left = watch.stop()
  ledger.add(*_fetch(pending), left)
  ledger.train_s += seconds
  ledger.wall_s = time.perf_counter() - began
  return steps_per_s


def _stand(run: worker_program.Session, config, store: Store | None):
  """Workers, examples and ledger: as `store` has them, else at the start."""
  workers, examples = worker_program.start(run, config)
  ledger = Ledger(resolve.links(config.link), config.workers)
  if store is not None and store.last() is not None:
    workers, found = store.load(workers)
    ledger.from_json(found)
  return workers, examples, ledger


def train(
  config,
  store: Store | None = None,
  interrupted: Callable[[], bool] = lambda: False,
  meter: interface_counters.Meter = interface_counters.Meter(),
  strategy: Strategy | None = None,
) -> Iterator[Record]:
  """Trains and yields a record every `log_every` and `eval_every` steps.

  Args:
    config: see gossipjax/config/defaults.py.
    store: of checkpoints, from the last of which it continues bit-exactly.
    interrupted: asked after every step; True stops the run.
    meter: of the interface that this process sends through.
    strategy: in place of the one that the config names.

  Raises:
    UserError: the config asks for something impossible.
    Diverged: the loss became NaN or Inf.
    Interrupted: `interrupted` said so; a checkpoint was kept.
  """
  began, run = time.perf_counter(), worker_program.make(config, strategy)
  workers, examples, ledger = _stand(run, config, store)
  began, key = began - ledger.wall_s, jax.random.key(config.seed)
  score = evaluate.held_out(run.task, config.workers, run.executor)
  step = run.executor.run(_compact(run.step), donate=(0,))
  watch, pending = Stopwatch(meter), []
  for t in range(ledger.step, config.steps):
    watch.start()
    workers, metrics = step(workers, examples, t=jnp.int32(t), key=key)
    # At most two steps in flight: emulated devices share a thread pool.
    jax.block_until_ready(pending[-1] if pending else metrics)
    pending.append(metrics)
    watch.count()
    stop = interrupted()
    log, test, keep = (
      due(config[every], t + 1, config.steps)
      for every in ('log_every', 'eval_every', 'checkpoint_every')
    )
    save = store is not None and (keep or stop)
    if log or test or save or stop:
      steps_per_s, pending = _settle(ledger, pending, watch, began), []
    if log or test:
      rate = steps_per_s and steps_per_s * config.workers * config.batch_size
      yield record_of(
        ledger, rate, scores_of(workers.params, score) if test else {}
      )
    if save:
      store.save(t + 1, workers, ledger.to_json())
    if stop:
      raise Interrupted(t + 1)
