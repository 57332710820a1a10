"""Steps whose exchange overlaps with the steps that follow.

  main thread      G(t) U(t)  G(t+1)       U(t+1)  G(t+2)
  second thread               B(t) ------->        B(t+1) ------->

G computes the gradient. U takes the local step, starts an exchange and applies
the one that is due. B exchanges; U(t + tau) waits for B(t). On CPUs XLA runs a
program one instruction after the other, and a thread runs one program at a
time, so B is called in a thread of its own. Only B communicates, so that all
processes do it in the same order; other code that communicates first waits for
all pending exchanges (`settle`).
"""

import collections
import concurrent.futures
from typing import Any

import jax

from gossipjax.aggregator import Aggregator
from gossipjax.local_step import Worker, make_worker
from gossipjax.traffic import SILENCE, pack_traffic
from gossipjax.training import memory, overlap_slot
from gossipjax.training.run import Run
from gossipjax.training.worker_program import WorkerProgram
from gossipjax.transforms.late import Late


class Overlapped:
  """Takes steps of all workers, as `OneProgram` does.

  A single process waits for each exchange at once: emulated devices share their
  threads, and have no link that could be busy meanwhile.

  Attributes:
    worker: rows of the executor, without the exchanges in flight.
  """

  def __init__(self, run: Run, program: WorkerProgram, worker: Worker):
    self._slot = overlap_slot.slot(run.strategy)
    late = overlap_slot.parts(run.strategy)
    lift = run.executor.run
    self._gradient = lift(program.own_gradient)
    self._update = lift(_local_step(run, self._slot, late), donate=(0,))
    self._exchange = lift(_exchange(late), donate=(1,))
    self._joined = lift(late.joined)
    own, self._memory, in_flight = lift(late.split)(getattr(worker, self._slot))
    self.worker = worker._replace(**{self._slot: own})
    self._arriving = collections.deque(map(_done, in_flight))
    self._thread = concurrent.futures.ThreadPoolExecutor(1, 'exchange')
    self._metrics: list[Any] = []
    self._waits = True  # For the first exchange, which compiles.

  def prepare(self, examples: Any, **shared: Any) -> None:
    """Refuses gradients that need more memory than a device has."""
    self._gradient = memory.compile_within_memory(
      self._gradient, self.worker.params, self.worker.state, examples, **shared
    )

  def step(self, examples: Any, **shared: Any) -> None:
    """Starts a step; waits for the exchange that arrives in it."""
    worker, t = self.worker, shared['t']
    (loss, state), grads = self._gradient(
      worker.params, worker.state, examples, **shared
    )
    arriving, _ = self._arriving.popleft().result()
    self.worker, leaving = self._update(worker, state, grads, arriving, t=t)
    future = self._thread.submit(self._send, leaving, t)
    if self._waits:
      future.result()
      self._waits = jax.process_count() == 1
    self._arriving.append(future)
    # At most two steps in flight, as in OneProgram.
    jax.block_until_ready(self._metrics[-1][0] if self._metrics else loss)
    self._metrics.append((loss, future))

  def _send(self, leaving: Any, t: jax.Array) -> tuple[Any, jax.Array]:
    """Exchanges in the second thread; returns what arrives, traffic digits."""
    # A program that waits for its arguments would occupy threads of JAX.
    jax.block_until_ready(leaving)
    arriving, self._memory, sent = self._exchange(leaving, self._memory, t=t)
    return jax.block_until_ready((arriving, sent))

  def settle(self) -> list[Any]:
    """Waits for all steps and exchanges; as `OneProgram.settle`."""
    results = [(loss, future.result()[1]) for loss, future in self._metrics]
    self._metrics = []
    return jax.block_until_ready(results)

  def full_state(self) -> Worker:
    """The workers with the exchanges in flight; call `settle` first."""
    own = getattr(self.worker, self._slot)
    in_flight = tuple(future.result()[0] for future in self._arriving)
    state = self._joined(own, self._memory, in_flight)
    return self.worker._replace(**{self._slot: state})


def _done(arriving: Any) -> concurrent.futures.Future:
  """An exchange that has ended."""
  future: concurrent.futures.Future = concurrent.futures.Future()
  future.set_result((arriving, None))
  return future


def _local_step(run: Run, slot: str, late: Late):
  """U of a worker: (worker, state, gradient, what arrives, t) -> (worker, what
  leaves)."""

  def local(tree, state, step, active=True):
    del active
    own, arriving = state
    leaving = late.depart(tree, own, step)
    tree, own = late.arrive(tree, own, arriving, step)
    return tree, (own, leaving), SILENCE

  slots: dict[str, Any] = {slot: Aggregator(lambda tree: (), local)}
  local_strategy = run.strategy._replace(**slots)
  _, update = make_worker(local_strategy, run.optimizer)

  def step(worker, state, grads, arriving, t):
    changes = {'state': state, slot: (getattr(worker, slot), arriving)}
    worker, _ = update(worker._replace(**changes), grads, t)
    own, leaving = getattr(worker, slot)
    return worker._replace(**{slot: own}), leaving

  return step


def _exchange(late: Late):
  """B of a worker: (what leaves, memory, t) -> (what arrives, memory, digits of
  the traffic)."""

  def exchange(leaving, memory, t):
    arriving, memory, sent = late.exchange(leaving, memory, t)
    return arriving, memory, pack_traffic(sent)

  return exchange
