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
from gossipjax.traffic import Traffic, digits, from_digits
from gossipjax.training import evaluate, loop, memory, model_state, stream
from gossipjax.training.checkpoint import Store
from gossipjax.training.ledger import Ledger
from gossipjax.training.optimizer import evaluated
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
    watch: shown the steps done and the workers, rows of the executor, after
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
    self._ledger = Ledger(
      run.links, run.workers, run.inner_link, run.inner.devices
    )
    self._copies = run.inner.devices > 1 and not run.inner.kind
    models = run.inner.models
    self._models = models if run.inner.devices == 1 else jax.jit(models)
    if store is not None and store.last() is not None:
      totals = self._load(store)
      self._ledger.from_json(totals)
    self.step = self._ledger.step
    streamed = isinstance(run.task.train, Shares)
    self._stream = stream.ahead(run, self.step) if streamed else None
    self._rate: float | None = None
    self._began = began - self._ledger.wall_s
    self._key = jax.random.key(run.seed)
    self._score = evaluate.held_out(run.task, run.workers, run.executor)
    self._mean_state = model_state.averaging(run.executor, run.inner)
    self._program = run.executor.run(_compact(program.step), donate=(0,))
    if self._stream is None:  # Else nobody knows the batch yet.
      self._program = memory.fitting(
        self._program,
        self._workers,
        self._examples,
        t=jnp.int32(self.step),
        key=self._key,
      )

  def advance(self) -> bool:
    self._stopwatch.start()
    if self._stream is not None:
      self._examples = self._run.executor.dealt(next(self._stream))
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
    losses, sent = _fetch(self._pending, self._run.inner.devices)
    self._ledger.add(losses, sent, left)
    self._ledger.train_s += seconds
    self._ledger.wall_s = time.perf_counter() - self._began
    self._pending = []

  def record(self, scored: bool) -> Record:
    scores = {}
    if scored:
      state = self._mean_state(self._workers.state, self._ledger)
      axes = 1 if self._run.inner.devices == 1 else 2
      params = self._models(
        evaluated(self._workers.opt, self._workers.params, axes)
      )
      scores = evaluate.scores(params, state, self._score)
    return loop.ledger_record(self._ledger, self._run, self._rate, scores)

  def reached(self, record: Record) -> bool:
    del record  # Runs to its last step.
    return False

  def state(self) -> tuple[Tree, dict[str, Any]]:
    return self._kept(), self._ledger.to_json()

  def _kept(self) -> Tree:
    """The workers, without copies that their devices have."""
    once = self._run.executor.once
    return once(self._workers) if self._copies else self._workers

  def _load(self, store: Store) -> dict[str, Any]:
    found, totals = store.load(self._kept())
    if self._copies:
      found = self._run.executor.copied(executors.rows(found))
    self._workers = found
    return totals


def _compact(step):
  """`WorkerProgram.step` with its traffic in one array."""

  def program(worker, examples, t, key):
    worker, (loss, sent) = step(worker, examples, t=t, key=key)
    return worker, (loss, digits(sent))

  return program


def _fetch(pending, devices: int) -> tuple[np.ndarray, Traffic]:
  """Losses and traffic of some steps, on the host: leaves [workers, steps]."""
  losses, sent = executors.gather(
    jax.tree.map(
      lambda *steps: np.stack(steps, axis=1 if devices == 1 else 2),
      *executors.rows(pending),
    )
  )
  mean = losses if devices == 1 else losses.mean(axis=1)
  return mean, from_digits(sent, devices)
