"""A step of data-parallel training, written in three ways.

Each is a function of a problem, the number of workers and the precision, and
returns the program, (state, batch, step) -> (state, loss), and the state to
start from. Leaves of state, batch and loss are [workers, ...], except that one
large batch has the state of one network.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from benchmarks import by_hand
from benchmarks.accelerator.problems import Problem
from gossipjax import executors
from gossipjax.config import resolve
from gossipjax.local_step import make_worker
from gossipjax.tasks.task import Task
from gossipjax.training import gradient

RATE, MOMENTUM = 0.05, 0.9


def _lowered(loss: Callable, precision: str) -> Callable:
  """Returns the loss, in bfloat16 if asked for, as a user would write it."""
  if precision != 'bfloat16':
    return loss
  is_float = lambda x: jnp.issubdtype(x.dtype, jnp.floating)
  to_bfloat16 = lambda x: x.astype(jnp.bfloat16) if is_float(x) else x
  return lambda params, batch: loss(*jax.tree.map(to_bfloat16, (params, batch)))


def _through_update(problem: Problem, workers: int, precision: str):
  """What `train` runs, without a ledger."""
  task = Task(
    problem.init,
    lambda p, b, key: problem.loss(p, b),
    lambda p, b: {},
    None,
    None,
  )
  dtype = 'bfloat16' if precision == 'bfloat16' else ''
  of_batch = gradient.of_batch(task, dtype)
  init, update = make_worker(
    resolve.strategy(resolve.strategy_config('all_reduce')),
    optax.sgd(RATE, MOMENTUM, nesterov=True),
  )

  def step(worker, batch, t):
    (loss, _), grads = of_batch(worker.params, (), batch, jax.random.key(0))
    return update(worker, grads, t)[0], loss

  start = executors.on_one_device(
    lambda x: init(problem.init(jax.random.key(x)))
  )
  all_workers = executors.on_one_device(step)
  program = jax.jit(lambda s, b, t: all_workers(s, b, t=t), donate_argnums=0)
  return program, start(jnp.zeros(workers, jnp.int32))


def _by_hand(problem: Problem, workers: int, precision: str):
  """The same by hand; the state is a pair of parameters and momenta."""
  loss = _lowered(problem.loss, precision)
  worker_step = by_hand.step(
    lambda p, b, key: loss(p, b), lambda b, key, t: b, RATE, MOMENTUM, 0.0
  )

  def step(state, batch, t):
    params, velocity, value = worker_step(*state, batch, jax.random.key(0), t)
    return (params, velocity), value

  program = jax.jit(
    jax.vmap(step, (0, 0, None), axis_name=by_hand.AXIS), donate_argnums=0
  )
  params = jax.vmap(problem.init)(jnp.stack([jax.random.key(0)] * workers))
  return program, (params, jax.tree.map(jnp.zeros_like, params))


def _one_large_batch(problem: Problem, workers: int, precision: str):
  """One network; `workers` is 1, and its axis is removed from the batch."""
  del workers
  loss = _lowered(problem.loss, precision)
  optimizer = optax.sgd(RATE, MOMENTUM, nesterov=True)

  def step(state, batch, t):
    del t
    params, memory = state
    value, grads = jax.value_and_grad(loss)(
      params, jax.tree.map(lambda x: x[0], batch)
    )
    updates, memory = optimizer.update(grads, memory, params)
    return (optax.apply_updates(params, updates), memory), value

  params = jax.jit(problem.init)(jax.random.key(0))
  return jax.jit(step, donate_argnums=0), (params, optimizer.init(params))


PROGRAMS = {
  'worker.update': _through_update,
  'groups': _through_update,
  'apart': _through_update,
  'by hand': _by_hand,
  'one large batch': _one_large_batch,
}
