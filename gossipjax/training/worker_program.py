"""The program of one worker, made from a run."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.aggregator import Tree
from gossipjax.collectives import INNER, WORKERS
from gossipjax.data.batch import batch, check_size
from gossipjax.data.examples import Shares
from gossipjax.devices.repeated_arrays import repeated
from gossipjax.local_step import Worker, make_worker
from gossipjax.tasks import checks
from gossipjax.traffic import SILENCE
from gossipjax.training import model_state, part_checks
from gossipjax.training.gradient import of_batch as gradient_of
from gossipjax.training.run import Run
from gossipjax.transforms import checked


class WorkerProgram(NamedTuple):
  """Pure functions that run once per worker, on each of its devices.

  Attributes:
    init: (parameters, state) -> Worker.
    gradient: (parameters, state, examples, worker, step) -> ((loss f32[],
      state), gradient), of the batch that a worker takes at its step, or a
      device's part of it; examples are [workers, m, ...] or, from a source, the
      batch itself, [size, ...].
    own_gradient: (parameters, state, examples, t=step, key=None) -> the same,
      for a worker that has its own examples only; the key is of the run's seed.
    update: (worker, gradient, step, stepping, talking) -> (worker, Traffic),
      see local_step.py.
    step: (worker, examples, t=step, key=None) -> (worker, (loss f32[],
      Traffic)): one local step and its exchange.
  """

  init: Callable[..., Worker]
  gradient: Callable[..., tuple[tuple[jax.Array, Tree], Tree]]
  own_gradient: Callable[..., tuple[tuple[jax.Array, Tree], Tree]]
  update: Callable[..., tuple[Worker, Any]]
  step: Callable[..., tuple[Worker, Any]]


def worker_program(run: Run) -> WorkerProgram:
  """The functions of each worker of a run."""
  begin, update = make_worker(run.strategy, run.optimizer)
  inner = run.inner
  inner_state = model_state.inner_mean
  if inner.devices == 1:
    inner_state = lambda state: (state, SILENCE)

  def init(params, state=()):
    return begin(inner.kept(params), state)

  streamed = isinstance(run.task.train, Shares)
  of_batch = gradient_of(run.task, run.compute_dtype, run.accumulate)

  def gradient(params, state, examples, worker, t, row=None, key=None):
    key = jax.random.key(run.seed) if key is None else key
    order, noise = jax.random.split(jax.random.fold_in(key, worker))
    noise, part = jax.random.fold_in(noise, t), (0, 1)
    if inner.devices > 1:  # As micro-batches, see gradient.py.
      part = lax.axis_index(INNER), inner.devices
      noise = jax.random.fold_in(noise, part[0])
    own_batch = examples
    if not streamed:
      own_batch = batch(examples, order, t, run.batch_size, row, part)
    return of_batch(params, state, own_batch, noise)

  # With the key as an argument all seeds run the same compiled program.
  def own_gradient(params, state, examples, t, key=None):
    me = lax.axis_index(WORKERS)
    return gradient(params, state, examples, me, t, key=key)

  def step(worker, examples, t, key=None):
    old_state, (params, gathering) = worker.state, inner.whole(worker.params)
    (loss, state), grads = own_gradient(params, old_state, examples, t, key)
    grads, reducing = inner.mean(grads)
    state, of_state = inner_state(state)
    worker, sent = update(worker._replace(state=state), grads, t)
    if inner.devices > 1:
      sent += gathering + reducing + of_state
    return worker, (loss, sent)

  of_any = lambda params, state, examples, worker, t: gradient(
    params, state, examples, worker, t, row=worker
  )
  return WorkerProgram(init, of_any, own_gradient, update, step)


def start(run: Run, program: WorkerProgram) -> tuple[Worker, Tree]:
  """Workers with the same initial parameters, and their examples.

  Returns:
    Both as rows of the executor, placed on its devices.
  """
  begin = jax.device_get(run.task.begin(jax.random.key(run.seed)))
  put, local = (
    run.executor.put_replicated,
    range(run.workers)[run.executor.local_workers],
  )
  copies = jax.tree.map(lambda x: repeated(x, len(local), 0), begin)
  streamed = isinstance(run.task.train, Shares)
  examples = () if streamed else put(run.task.train)
  return run.executor.run(program.init)(*put(copies)), examples


def state_shapes(run: Run, shapes: tuple[Tree, Tree]) -> Worker:
  """Shapes and dtypes of all workers at the beginning; computes nothing.

  Args:
    run: what to train.
    shapes: of the parameters and of the state, see `trace_step`.
  """
  begin = worker_program(run).init
  if run.inner.devices > 1:
    begin = jax.vmap(begin, None, axis_name=INNER, axis_size=run.inner.devices)
  init_all = jax.vmap(begin, None, axis_name=WORKERS, axis_size=run.workers)
  return jax.eval_shape(init_all, *shapes)


def trace_step(
  run: Run,
  names: part_checks.Names = part_checks.Names(),
  attending: int | None = None,
) -> tuple[Tree, Tree]:
  """Traces a step without computing it, to find errors before training.

  Args:
    run: what to train.
    names: of its parts, for messages.
    attending: number of workers that take part in the step; None: all.

  Returns:
    Shapes and dtypes of the parameters, and of the state.

  Raises:
    UserError: the step would fail, for example for a batch too large, or a part
      is wrong: the strategy (transforms/checked.py), the optimizer.
  """
  checks.check(run.task, run.batch_size)
  checked_run = dataclasses.replace(
    run,
    strategy=checked.of_strategy(names.strategy, run.strategy),
    optimizer=part_checks.of_optimizer(names.optimizer, run.optimizer),
  )
  program = worker_program(checked_run)
  shapes = jax.eval_shape(run.task.begin, jax.random.key(0))

  def one_step(examples, begin):
    return program.step(program.init(*begin), examples, t=jnp.int32(0))

  worker, devices = one_step, run.inner.devices
  if devices > 1:
    worker = jax.vmap(
      one_step, axis_name=INNER, in_axes=(None, None), axis_size=devices
    )
  step_all = jax.vmap(worker, axis_name=WORKERS, in_axes=(0, None))
  count = attending or run.workers
  examples = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct((count, *x.shape), x.dtype),
    example_shapes(run),
  )
  jax.eval_shape(step_all, examples, shapes)
  return shapes


def example_shapes(run: Run) -> Tree:
  """Shapes and dtypes of the examples that a step of one worker is given.

  Raises:
    UserError: a worker has fewer examples than a batch.
  """
  train = run.task.train
  if isinstance(train, Shares):
    check_size(run.batch_size, train.rows.shape[1])
    size = run.batch_size // run.inner.devices
    return checks.batch_shapes(train, 0, size)
  of_worker = lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype)
  return jax.tree.map(of_worker, train)
