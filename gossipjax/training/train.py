"""Synchronous training, as a stream of records."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import executors
from gossipjax.aggregator import Tree
from gossipjax.data.sources import Shares
from gossipjax.distributed.interface_counters import Meter
from gossipjax.local_step import Worker
from gossipjax.traffic import digits, from_digits
from gossipjax.training import evaluate, loop, model_state, stream
from gossipjax.training.checkpoint import Store
from gossipjax.training.ledger import Ledger
from gossipjax.training.record import Record
from gossipjax.training.run import Run
from gossipjax.training.worker_program import start, worker_program

Watch = Callable[[int, Worker], None]


def train(
  run: Run,
  store: Store | None = None,
  interrupted: Callable[[], bool] = lambda: False,
  meter: Meter = Meter(),
  watch: Watch = lambda step, workers: None,
) -> Iterator[Record]:
  """Trains and yields a record every `log_every` and `eval_every` steps.

  Args:
    run: what to train.
    store: of checkpoints, from the last of which it continues bit-exactly.
    interrupted: asked after every step; True stops the run.
    meter: of the interface that this process sends through.
    watch: shown the steps done and the workers, leaves [workers, ...], after
      every step; whoever keeps them has to copy them.

  Raises:
    UserError: the run asks for something impossible.
    Diverged: the loss became NaN or Inf.
    Interrupted: `interrupted` said so; a checkpoint was kept.
  """
  training = LockStep(run, store, meter, watch)
  yield from loop.records(training, run, store, interrupted)


class LockStep:
  """All workers step together; a `loop.Training`."""

  def __init__(self, run: Run, store: Store | None, meter: Meter, watch: Watch):
    began, program = time.perf_counter(), worker_program(run)
    self._run, self._watch = run, watch
    self._stopwatch, self._pending = loop.Stopwatch(meter), []
    self._workers, self._examples = start(run, program)
    self._ledger = Ledger(run.links, run.workers)
    if store is not None and store.last() is not None:
      self._workers, totals = store.load(self._workers)
      self._ledger.from_json(totals)
    self.step = self._ledger.step
    streamed = isinstance(run.task.train, Shares)
    self._stream = stream.ahead(run, self.step) if streamed else None
    self._rate: float | None = None
    self._began = began - self._ledger.wall_s
    self._key = jax.random.key(run.seed)
    self._score = evaluate.held_out(run.task, run.workers, run.executor)
    self._mean_state = model_state.averaging(run.executor)
    self._program = run.executor.run(_compact(program.step), donate=(0,))

  def advance(self) -> bool:
    self._stopwatch.start()
    if self._stream is not None:
      self._examples = self._run.executor.put(next(self._stream))
    self._workers, metrics = self._program(
      self._workers, self._examples, t=jnp.int32(self.step), key=self._key
    )
    # At most two steps in flight: emulated devices share a thread pool.
    jax.block_until_ready(self._pending[-1] if self._pending else metrics)
    self._pending.append(metrics)
    self._stopwatch.count()
    self.step += 1
    self._watch(self.step, self._workers)
    return False

  def settle(self) -> None:
    jax.block_until_ready(self._pending)
    seconds, self._rate, left = self._stopwatch.stop()
    losses, sent = _fetch(self._pending)
    self._ledger.add(losses, sent, left)
    self._ledger.train_s += seconds
    self._ledger.wall_s = time.perf_counter() - self._began
    self._pending = []

  def record(self, scored: bool) -> Record:
    scores = {}
    if scored:
      state = self._mean_state(self._workers.state, self._ledger)
      scores = evaluate.scores(self._workers.params, state, self._score)
    return loop.ledger_record(self._ledger, self._run, self._rate, scores)

  def reached(self, record: Record) -> bool:
    del record  # Runs to its last step.
    return False

  def state(self) -> tuple[Tree, dict[str, Any]]:
    return self._workers, self._ledger.to_json()


def _compact(step):
  """`WorkerProgram.step` with its traffic in one array."""

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
