"""Steps of all workers as one program, whose exchange is part of the step."""

from typing import Any

import jax

from gossipjax.local_step import Worker
from gossipjax.traffic import pack_traffic
from gossipjax.training import memory
from gossipjax.training.run import Run
from gossipjax.training.worker_program import WorkerProgram


class OneProgram:
  """Takes steps of all workers.

  Attributes:
    worker: rows of the executor, after the steps so far.
  """

  def __init__(self, run: Run, program: WorkerProgram, worker: Worker):
    self.worker, self._metrics = worker, []
    self._program = run.executor.run(_compact(program.step), donate=(0,))

  def prepare(self, examples: Any, **shared: Any) -> None:
    """Refuses steps that need more memory than a device has.

    Arguments are those of `step`.
    """
    self._program = memory.compile_within_memory(
      self._program, self.worker, examples, **shared
    )

  def step(self, examples: Any, **shared: Any) -> None:
    """Starts a step, and waits for the one before it.

    Args:
      examples: rows of the executor.
      **shared: t, the step, i32[]; key, of the run's seed.
    """
    self.worker, metrics = self._program(self.worker, examples, **shared)
    # At most two steps in flight: emulated devices share a thread pool.
    jax.block_until_ready(self._metrics[-1] if self._metrics else metrics)
    self._metrics.append(metrics)

  def settle(self) -> list[Any]:
    """Waits; returns the losses and traffic digits of each step since the last
    call, as rows of the executor."""
    metrics, self._metrics = jax.block_until_ready(self._metrics), []
    return metrics

  def full_state(self) -> Worker:
    """The workers with all that a checkpoint has to keep."""
    return self.worker


def _compact(step):
  """`WorkerProgram.step` with its traffic in one array."""

  def program(worker, examples, t, key):
    worker, (loss, sent) = step(worker, examples, t=t, key=key)
    return worker, (loss, pack_traffic(sent))

  return program
