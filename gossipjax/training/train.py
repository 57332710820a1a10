"""Synchronous training, as a stream of records."""

import time
from collections.abc import Callable, Generator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import executors
from gossipjax.aggregator import Tree
from gossipjax.data.examples import Shares
from gossipjax.distributed.interface_counters import Meter
from gossipjax.local_step import Worker
from gossipjax.traffic import Traffic, unpack_traffic
from gossipjax.training import (
  evaluate,
  loop,
  model_state,
  overlap_slot,
  stream,
)
from gossipjax.training.bucket_overlap import BucketOverlap
from gossipjax.training.checkpoint import Store
from gossipjax.training.ledger import Ledger
from gossipjax.training.one_program import OneProgram
from gossipjax.training.optimizer import eval_params
from gossipjax.training.overlap import Overlapped
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
) -> Generator[Record, None, None]:
  """Trains and yields a record every `log_every` and `eval_every` steps.

  Args:
    run: what to train.
    store: of checkpoints; training continues bit-exactly from the last one.
    interrupted: asked after every step; True stops the run.
    meter: of the interface that this process sends through.
    watch: called after every step with the number of steps done and the
      workers, rows of the executor; it has to copy workers that it keeps.

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
    workers, self._examples = start(run, program)
    self._ledger = Ledger(
      run.links,
      run.workers,
      run.inner_link,
      run.inner.devices,
      overlap_slot.parts(run.strategy).steps if _modelled(run) else 0,
    )
    self._copies = run.inner.devices > 1 and not run.inner.kind
    models = run.inner.models
    self._models = models if run.inner.devices == 1 else jax.jit(models)
    if store is not None and store.last() is not None:
      workers, totals = self._load(store, workers)
      self._ledger.from_json(totals)
    self.step = self._ledger.step
    self._stopwatch = loop.Stopwatch(meter, self.step)
    streamed = isinstance(run.task.train, Shares)
    self._stream = stream.prefetch(run, self.step) if streamed else None
    self._rate: float | None = None
    self._began = began - self._ledger.wall_s
    self._key = jax.random.key(run.seed)
    self._score = evaluate.held_out_scorer(run.task, run.workers, run.executor)
    self.scored = evaluate.ScoredModel()
    self._mean_state = model_state.averaging(run.executor, run.inner)
    self._steps = _steps(run)(run, program, workers)
    self._fits = False  # Known at the first step, when there is a batch.

  def advance(self) -> bool:
    self._stopwatch.start()
    if self._stream is not None:
      self._examples = self._run.executor.put_split(next(self._stream))
    shared = {'t': jnp.int32(self.step), 'key': self._key}
    if not self._fits:
      self._steps.prepare(self._examples, **shared)
      self._fits = True
    self._steps.step(self._examples, **shared)
    self._stopwatch.count()
    self.step += 1
    self._watch(self.step, self._steps.worker)
    return False

  def settle(self) -> None:
    metrics = self._steps.settle()
    seconds, self._rate, wire = self._stopwatch.stop()
    losses, sent = _fetch(metrics, self._run.inner.devices)
    # Workers of one process share its time; alone each would need only a part.
    step_s = 1 / self._rate / self._run.workers if self._rate else None
    self._ledger.add_steps(losses, sent, wire, step_s)
    self._ledger.train_s += seconds
    self._ledger.wall_s = time.perf_counter() - self._began

  def record(self, scored: bool) -> Record:
    scores, worker = {}, self._steps.worker
    if scored:
      states = self._mean_state(worker.state, self._ledger)
      axes = 1 if self._run.inner.devices == 1 else 2
      params = self._models(eval_params(worker.opt, worker.params, axes))
      scores = evaluate.scores(params, states, self._score, self.scored)
    return loop.ledger_record(self._ledger, self._run, self._rate, scores)

  def final_record(self) -> None:
    """It ends with its last step."""

  def reached(self, record: Record) -> bool:
    del record  # Runs to its last step.
    return False

  def state(self) -> tuple[Tree, dict[str, Any]]:
    return self._kept(self._steps.full_state()), self._ledger.to_json()

  def _kept(self, workers: Worker) -> Tree:
    """The workers, without the copies on their other devices."""
    return self._run.executor.unreplicate(workers) if self._copies else workers

  def _load(self, store: Store, like: Worker) -> tuple[Worker, dict[str, Any]]:
    workers, totals = store.load(self._kept(like))
    if self._copies:
      workers = self._run.executor.put_replicated(executors.to_host(workers))
    return workers, totals


def _steps(run: Run) -> type[OneProgram | Overlapped | BucketOverlap]:
  if not run.overlap:
    return OneProgram
  return Overlapped if overlap_slot.slot(run.strategy) else BucketOverlap


def _modelled(run: Run) -> bool:
  """Whether hidden communication is modelled; several processes measure it."""
  return _steps(run) is Overlapped and jax.process_count() == 1


def _fetch(metrics, devices: int) -> tuple[np.ndarray, Traffic]:
  """Losses and traffic of some steps, on the host: leaves [workers, steps]."""
  losses, sent = executors.gather(
    jax.tree.map(
      lambda *steps: np.stack(steps, axis=1 if devices == 1 else 2),
      *executors.to_host(metrics),
    )
  )
  mean = losses if devices == 1 else losses.mean(axis=1)
  return mean, unpack_traffic(sent, devices)
