"""What a config describes, ready to run."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax import build, optimizer, spmd, tasks
from gossipjax.aggregator import Tree
from gossipjax.collectives import WORKERS
from gossipjax.data.batch import batch
from gossipjax.worker import Worker, make_worker


class Session(NamedTuple):
  """A task and one worker's program, not yet running.

  Attributes:
    init: parameters -> Worker.
    step: (worker, examples, t=step) -> (worker, (loss f32[], sent)): one local
      step and its exchange.
  """

  task: tasks.Task
  executor: spmd.Executor
  init: Callable[[Tree], Worker]
  step: Callable[..., tuple[Worker, Any]]


def make(config) -> Session:
  """Builds everything by name; see configs/default.py for the keys."""
  optimizer.check_momentum(config.strategy, config.optimizer)
  executor = spmd.executor(config.workers, config.executor)
  task = make_task(config, executor.mine)
  init, update = make_worker(
      build.strategy(config.strategy),
      optimizer.make(config.optimizer, config.steps))

  def step(worker, examples, t):
    key = jax.random.fold_in(
        jax.random.key(config.seed), lax.axis_index(WORKERS))
    order, noise = jax.random.split(key)
    mine = batch(examples, order, t, config.batch_size)
    loss, grads = jax.value_and_grad(task.loss)(
        worker.params, mine, jax.random.fold_in(noise, t))
    worker, sent = update(worker, grads, t)
    return worker, (loss, sent)

  return Session(task, executor, init, step)


def make_task(config, mine: slice = slice(None)) -> tasks.Task:
  """The task of `config.task`, with examples for `mine` of the workers."""
  arguments = {k: v for k, v in config.task.items() if v is not None}
  return tasks.make(arguments.pop('name'), config.workers, mine=mine,
                    seed=config.seed, data_dir=config.data.dir or None,
                    **arguments)


def start(session: Session, config) -> tuple[Worker, Tree]:
  """Workers that share their initial parameters, and their examples.

  Returns:
    Both with leaves [workers, ...], placed.
  """
  params = jax.device_get(session.task.init(jax.random.key(config.seed)))
  put, mine = session.executor.put, range(config.workers)[session.executor.mine]
  same = jax.tree.map(lambda x: np.stack([x] * len(mine)), params)
  return session.executor.run(session.init)(put(same)), put(session.task.train)


def rehearse(config) -> Tree:
  """Traces a step without computing it, to refuse now what would fail later.

  Returns:
    Shapes and dtypes of the parameters.
  """
  session = make(config)
  shapes = jax.eval_shape(session.task.init, jax.random.key(0))

  def one_step(examples, params):
    return session.step(session.init(params), examples, t=jnp.int32(0))

  everyone = jax.vmap(one_step, axis_name=WORKERS, in_axes=(0, None))
  examples = jax.tree.map(
      lambda x: jax.ShapeDtypeStruct((config.workers, *x.shape[1:]), x.dtype),
      session.task.train)
  jax.eval_shape(everyone, examples, shapes)
  return shapes
