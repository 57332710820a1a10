"""Steps that exchange the last layers' gradients while computing earlier ones.

  main thread      G1  G2  G3      U  G1  G2  G3      U
  second thread        B1  B2  B3         B1  B2  B3

G1 to G3 are the stages of the gradient, see gradient_stages.py. Bi exchanges
the bucket of gradients that Gi completes. U takes the local step with the
results of B1 to B3. As in overlap.py, only the second thread communicates while
a gradient is computed.
"""

import concurrent.futures
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from gossipjax.aggregator import Aggregator
from gossipjax.local_step import Worker, make_worker
from gossipjax.traffic import SILENCE, pack_traffic
from gossipjax.training import gradient_stages
from gossipjax.training.gradient_stages import Stage, StagedGradient
from gossipjax.training.run import Run
from gossipjax.training.worker_program import WorkerProgram


class Bucket(NamedTuple):
  """A stage of the gradient and the exchange of the bucket that it completes.

  Attributes:
    number: the number of its part in the strategy's aggregator.
    members: the positions of its tensors among all gradients.
    stage: the stage of the gradient.
    compute: the program of the stage for all workers.
    exchange: (tensors, memory, t) -> (tensors, memory, Traffic), for all
      workers.
  """

  number: int
  members: list[int]
  stage: Stage
  compute: Callable[..., Any]
  exchange: Callable[..., Any]


class BucketOverlap:
  """Takes steps of all workers, as `OneProgram` does.

  Attributes:
    worker: rows of the executor, without the memories of the exchanges.
  """

  def __init__(self, run: Run, program: WorkerProgram, worker: Worker):
    self._run, self._gradient = run, program.own_gradient
    self.worker = worker._replace(gradients=())
    self._memory = list(worker.gradients)
    self._update = run.executor.run(_local_step(run), donate=(0,))
    self._thread = concurrent.futures.ThreadPoolExecutor(1, 'exchange')
    self._buckets: list[Bucket] = []
    self._forms: tuple[Any, Any] = None, None
    self._metrics: list[Any] = []
    self._waits = True  # For the first exchanges, which compile.

  def prepare(self, examples: Any, t: jax.Array, key: jax.Array) -> None:
    """Cuts the gradient, before the first step; arguments are those of `step`.

    Raises:
      UserError: all buckets are known at the same time.
    """
    inputs = self.worker.params, self.worker.state, examples
    of_worker = lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype)
    shapes = jax.tree.map(of_worker, inputs)
    cut = gradient_stages.of_buckets(self._run, self._gradient, shapes, t, key)
    self._forms = cut.forms
    self._buckets = _buckets(self._run, cut, len(jax.tree.leaves(shapes)))

  def step(self, examples: Any, **shared: Any) -> None:
    """Takes a step: waits for its exchanges, and starts the local update."""
    worker, t = self.worker, shared['t']
    inputs = jax.tree.leaves((worker.params, worker.state, examples))
    head_form, grads_form = self._forms
    known: dict[Any, Any] = {}
    futures, head = [], None
    for bucket in self._buckets:
      needs = [known[v] for v in bucket.stage.needs]
      results = bucket.compute(*inputs, *needs, **shared)
      if head is None:
        head, results = _split(results, head_form.num_leaves)
      part, values = _split(results, len(bucket.members))
      known |= zip(bucket.stage.makes, values, strict=True)
      futures.append(self._thread.submit(self._send, bucket, part, t))
      if self._waits:
        futures[-1].result()
    self._waits = jax.process_count() == 1
    leaves, sent = [None] * grads_form.num_leaves, []
    for bucket, future in zip(self._buckets, futures, strict=True):
      arrived, bill = future.result()
      sent.append(bill)
      for i, leaf in zip(bucket.members, arrived, strict=True):
        leaves[i] = leaf
    loss, state = head_form.unflatten(head)
    self.worker, bill = self._update(
      worker, state, grads_form.unflatten(leaves), sent, t=t
    )
    self._metrics.append((loss, bill))

  def _send(self, bucket: Bucket, part: Any, t: jax.Array) -> tuple[Any, Any]:
    """Exchanges a bucket in the second thread; returns its mean and bill."""
    # A program that waits for its arguments would occupy threads of JAX.
    jax.block_until_ready(part)
    memory = self._memory[bucket.number]
    part, self._memory[bucket.number], sent = bucket.exchange(part, memory, t=t)
    return jax.block_until_ready((part, sent))

  def settle(self) -> list[Any]:
    """Waits for all steps; as `OneProgram.settle`."""
    metrics, self._metrics = jax.block_until_ready(self._metrics), []
    return metrics

  def full_state(self) -> Worker:
    """The workers with the memories of the exchanges; call `settle` first."""
    return self.worker._replace(gradients=tuple(self._memory))


def _buckets(run: Run, cut: StagedGradient, num_inputs: int) -> list[Bucket]:
  """The buckets in the order in which their gradients are known.

  Args:
    run: what to train.
    cut: its gradient in stages.
    num_inputs: how many arrays the gradient takes, besides step and key.
  """
  parts, lift = run.strategy.gradients.parts, run.executor.run
  return [
    Bucket(
      b,
      cut.members[b],
      stage,
      lift(_computing(stage, num_inputs)),
      lift(_exchanging(parts.make(b)), donate=(1,)),
    )
    for b, stage in zip(cut.order, cut.stages, strict=True)
  ]


def _split(values: list[Any], count: int) -> tuple[list[Any], list[Any]]:
  return values[:count], values[count:]


def _computing(stage: Stage, num_inputs: int):
  """G of a worker: (arguments, values that the stage needs) -> its results."""

  def compute(*values, t, key):
    return stage.run(*values[:num_inputs], t, key, *values[num_inputs:])

  return compute


def _exchanging(aggregator: Aggregator):
  """B of a worker."""

  return lambda tensors, memory, t: aggregator.update(tensors, memory, t)


def _local_step(run: Run):
  """U of a worker: (worker, state, mean gradients, bills, t) -> (worker, digits
  of the Traffic)."""

  def update(worker, state, grads, bills, t):
    sent = sum(bills, SILENCE)
    mean = Aggregator(lambda tree: (), lambda tree, s, *_: (tree, s, sent))
    _, step = make_worker(run.strategy._replace(gradients=mean), run.optimizer)
    worker, sent = step(worker._replace(state=state), grads, t)
    return worker, pack_traffic(sent)

  return update
