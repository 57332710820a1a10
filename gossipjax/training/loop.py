"""The training loop that real and virtual time share."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from gossipjax.aggregator import Tree
from gossipjax.distributed import stopping
from gossipjax.distributed.interface_counters import Meter
from gossipjax.training.checkpoint import Store
from gossipjax.training.evaluate import ScoredModel
from gossipjax.training.ledger import Ledger
from gossipjax.training.record import Record
from gossipjax.training.run import Run


class Interrupted(Exception):
  """The run was asked to stop, and stopped after `step`."""

  def __init__(self, step: int):
    super().__init__(step)
    self.step = step


class Training(Protocol):
  """A training that the loop advances.

  Attributes:
    scored: the model of the last record with scores.
  """

  scored: ScoredModel

  @property
  def step(self) -> int:
    """Steps done."""

  def advance(self) -> bool:
    """Takes a step; returns whether training has ended before its last one."""

  def settle(self) -> None:
    """Waits for the steps so far and enters them into the ledger."""

  def record(self, scored: bool) -> Record:
    """The record of the steps so far, with held-out scores if `scored`."""

  def final_record(self) -> Record | None:
    """A last record after the time-out of a stalled round, else None."""

  def reached(self, record: Record) -> bool:
    """Whether a record is good enough to end training."""

  def state(self) -> tuple[Tree, dict[str, Any]]:
    """What a checkpoint keeps: arrays, and totals for JSON."""


def records(
  training: Training,
  run: Run,
  store: Store | None,
  interrupted: Callable[[], bool],
) -> Iterator[Record]:
  """Trains to the end; yields a record every `log_every` and `eval_every`.

  Args:
    training: at its first step, or at that of a checkpoint.
    run: what to train.
    store: of checkpoints; None keeps none.
    interrupted: asked after every step; True stops the run.

  Raises:
    Interrupted: `interrupted` said so; a checkpoint was kept.
  """
  # A checkpoint of such a step was kept after its record.
  scored = due(run.eval_every, training.step, run.steps)
  over, scored_at = False, training.step if scored else 0
  while training.step < run.steps and not over:
    over, stop = training.advance(), interrupted()
    log, test, keep = (
      over or due(every, training.step, run.steps)
      for every in (run.log_every, run.eval_every, run.checkpoint_every)
    )
    save = store is not None and (keep or stop)
    if log or test or save or stop:
      training.settle()
    goal = False
    if (log or test) and training.step != scored_at:
      record = training.record(scored=test)
      yield record
      stopping.finished()
      scored_at, goal = training.step if test else 0, training.reached(record)
    if over and not goal and (last := training.final_record()):
      yield last
    over |= goal
    # After --resume, a run that ended early gets to that end again.
    if save and not over:
      store.save(training.step, *training.state())
      stopping.finished()
    if stop and not over:  # A run at its end has nothing left to resume.
      raise Interrupted(training.step)
  if store is not None:
    store.keep(lambda: _model(training))


def _model(training: Training) -> tuple[Tree, Tree]:
  """The model that was scored last."""
  if training.scored.model is None:  # A checkpoint already had all steps.
    training.record(scored=True)
  return training.scored.model


def due(period: int, done: int, steps: int) -> bool:
  """Whether `done` ends a period (never if 0), or is the last of `steps`."""
  return done == steps or (period > 0 and done % period == 0)


class Stopwatch:
  """Measures seconds of steps, and bytes that leave an interface during them.

  The first step is left out, because it compiles. If it is not the first of the
  run, it counts as the mean of the steps that follow.
  """

  def __init__(self, meter: Meter, before: int):
    """Begins with nothing; the run had taken `before` steps."""
    self._meter = meter
    self._since: float | None = None
    self._steps, self._warm, self._missed = 0, False, int(before > 0)

  def start(self) -> None:
    """Call before a step; does nothing while running."""
    self._since = self._since or time.perf_counter()
    self._meter.start()

  def count(self) -> None:
    """Call after a step."""
    if self._warm:
      self._steps += 1
    else:
      self._warm, self._since = True, time.perf_counter()

  def stop(self) -> tuple[float, float | None, np.ndarray | None]:
    """Seconds, steps per second and wire bytes since `start`."""
    seconds, steps = time.perf_counter() - self._since, self._steps
    self._since, self._steps = None, 0
    if not steps:
      return seconds, None, self._meter.stop()
    missed, self._missed = self._missed * seconds / steps, 0
    return seconds + missed, steps / seconds, self._meter.stop()


def ledger_record(
  ledger: Ledger, run: Run, steps_per_s: float | None, scores: dict[str, Any]
) -> Record:
  """Makes a record of the ledger's totals; fields that are unknown are None.

  Args:
    ledger: of the run.
    run: what is trained.
    steps_per_s: since the last record; None if unknown.
    scores: held-out fields of the record, see `evaluate.scores`.
  """
  rate = steps_per_s and steps_per_s * run.workers * run.batch_size
  return Record(
    **dict.fromkeys(Record.__struct_fields__)
    | scores
    | dict(
      step=ledger.step,
      train_loss=ledger.take_loss(),
      bytes_sent=ledger.bytes.tolist(),
      bytes_received=ledger.received.tolist(),
      messages=ledger.messages.tolist(),
      exchanges=ledger.exchanges,
      bytes_local=ledger.local.tolist() if ledger.local.any() else None,
      bytes_inner=ledger.inner.tolist() if ledger.inner.any() else None,
      bytes_evaluation=(
        ledger.evaluation.tolist() if ledger.evaluation.any() else None
      ),
      inner_s=ledger.inner_s if ledger.inner.any() else None,
      wire_bytes=ledger.wire,
      comm_s=dict(ledger.comm_s),
      hidden_s=dict(ledger.hidden_s) or None,
      wall_s=ledger.wall_s,
      train_s=ledger.train_s,
      examples_per_s=rate,
    )
  )
