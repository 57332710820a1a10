"""What a config describes, ready to run."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax import executors
from gossipjax.aggregator import Strategy, Tree
from gossipjax.collectives import WORKERS
from gossipjax.config import resolve
from gossipjax.data.batch import batch
from gossipjax.tasks import named
from gossipjax.training import optimizer
from gossipjax.worker import Worker, make_worker


class Session(NamedTuple):
  """A task and one worker's program, not yet running.

  Attributes:
    init: parameters -> Worker.
    gradient: (parameters, examples, worker, t) -> (loss f32[], gradient), of a
      worker's batch of its step t; examples [workers, m, ...].
    update: see worker.py.
    step: (worker, examples, t=step, key=None) -> (worker, (loss f32[], sent)):
      one local step and its exchange; the key is that of the config's seed.
  """

  task: named.Task
  executor: executors.Executor
  init: Callable[[Tree], Worker]
  gradient: Callable[..., tuple[jax.Array, Tree]]
  update: Callable[..., tuple[Worker, Any]]
  step: Callable[..., tuple[Worker, Any]]


def make(config, strategy: Strategy | None = None) -> Session:
  """Builds everything by name; see gossipjax/config/defaults.py for the keys.

  Args:
    config: the run.
    strategy: in place of the one that it names.
  """
  optimizer.check_momentum(config.strategy, config.optimizer)
  executor = executors.executor(config.workers, how(config))
  task = make_task(config, executor.mine)
  init, update = make_worker(
    strategy or resolve.strategy(config.strategy),
    optimizer.make(config.optimizer, config.steps),
  )

  def gradient(params, examples, worker, t, row=None, key=None):
    key = jax.random.key(config.seed) if key is None else key
    order, noise = jax.random.split(jax.random.fold_in(key, worker))
    mine = batch(examples, order, t, config.batch_size, row)
    return jax.value_and_grad(task.loss)(
      params, mine, jax.random.fold_in(noise, t)
    )

  # With the key as an argument all seeds run the same compiled program.
  def step(worker, examples, t, key=None):
    loss, grads = gradient(
      worker.params, examples, lax.axis_index(WORKERS), t, key=key
    )
    worker, sent = update(worker, grads, t)
    return worker, (loss, sent)

  of_any = lambda params, examples, worker, t: gradient(
    params, examples, worker, t, row=worker
  )
  return Session(task, executor, init, of_any, update, step)


def how(config) -> str:
  """The executor's name; in virtual time all workers share a device."""
  return 'vmap' if config.get('cluster') else config.executor


def make_task(config, mine: slice = slice(None)) -> named.Task:
  """The task of `config.task`, with examples for `mine` of the workers."""
  arguments = {k: v for k, v in config.task.items() if v is not None}
  return named.make(
    arguments.pop('name'),
    config.workers,
    mine=mine,
    seed=config.seed,
    data_dir=config.data.dir or None,
    **arguments,
  )


def start(session: Session, config) -> tuple[Worker, Tree]:
  """Workers that share their initial parameters, and their examples.

  Returns:
    Both with leaves [workers, ...], placed.
  """
  params = jax.device_get(session.task.init(jax.random.key(config.seed)))
  put, mine = session.executor.put, range(config.workers)[session.executor.mine]
  same = jax.tree.map(lambda x: np.stack([x] * len(mine)), params)
  return session.executor.run(session.init)(put(same)), put(session.task.train)


def rehearse(
  config, strategy: Strategy | None = None, come: int | None = None
) -> Tree:
  """Traces a step without computing it, to refuse now what would fail later.

  Args:
    config: the run.
    strategy: in place of the one that it names.
    come: workers in a step; None is all.

  Returns:
    Shapes and dtypes of the parameters.
  """
  session = make(config, strategy)
  shapes = jax.eval_shape(session.task.init, jax.random.key(0))

  def one_step(examples, params):
    return session.step(session.init(params), examples, t=jnp.int32(0))

  everyone = jax.vmap(one_step, axis_name=WORKERS, in_axes=(0, None))
  examples = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(
      (come or config.workers, *x.shape[1:]), x.dtype
    ),
    session.task.train,
  )
  jax.eval_shape(everyone, examples, shapes)
  return shapes
