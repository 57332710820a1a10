"""What a config describes, ready to run."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from gossipjax import build, spmd, tasks
from gossipjax.collectives import WORKERS
from gossipjax.data.batch import batch
from gossipjax.worker import Worker, make_worker


class Setup(NamedTuple):
  """A task, its workers, and the step that all of them run."""

  task: tasks.Task
  executor: spmd.Executor
  step: Callable[..., tuple[Worker, Any]]  # (workers, examples, t=step).
  workers: Worker  # Leaves [workers, ...]; all start from the same parameters.
  examples: Any


def set_up(config) -> Setup:
  """Builds task, workers and the step that all of them run."""
  n, seed = config.workers, jax.random.key(config.seed)
  executor = spmd.executor(n, config.executor)
  task = make_task(config)
  init, update = make_worker(
      build.strategy(config.strategy),
      build.optimizer(config.optimizer, config.steps))

  def step(worker, examples, t):
    """One local step and its exchange: (worker, (loss, sent))."""
    key = jax.random.fold_in(seed, lax.axis_index(WORKERS))
    order, noise = jax.random.split(key)
    mine = batch(examples, order, t, config.batch_size)
    loss, grads = jax.value_and_grad(task.loss)(
        worker.params, mine, jax.random.fold_in(noise, t))
    worker, sent = update(worker, grads, t)
    return worker, (loss, sent)

  params = task.init(seed)
  same = jax.tree.map(lambda x: np.stack([x] * n), jax.device_get(params))
  workers = executor.run(init)(executor.put(same))
  return Setup(task, executor, executor.run(step, donate=(0,)), workers,
               executor.put(task.train))


def make_task(config) -> tasks.Task:
  """The task of `config.task` for the workers of the config."""
  arguments = {k: v for k, v in config.task.items() if v is not None}
  return tasks.make(arguments.pop('name'), config.workers, seed=config.seed,
                    data_dir=config.data.dir or None, **arguments)
