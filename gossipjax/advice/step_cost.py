"""Measures a step of one worker on this machine, without communication."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from ml_collections import ConfigDict

from gossipjax.advice import periods, step_traffic
from gossipjax.advice.isolated_worker import alone
from gossipjax.aggregator import Strategy, Tree, identity
from gossipjax.config import resolve
from gossipjax.data.examples import Shares, stacked
from gossipjax.local_step import make_worker
from gossipjax.profiling.interleaved_timing import median_seconds
from gossipjax.tasks.task import Task
from gossipjax.training import optimizer
from gossipjax.training.gradient import of_batch
from gossipjax.training.run import precision

TURNS = 3  # Timed repetitions of each call; their median is used.


class Cost(NamedTuple):
  """What a strategy adds to a step.

  Attributes:
    select_s: seconds of selecting, packing, merging and averaging, mean over
      steps.
    traffic: the bytes, messages and rounds of its steps.
  """

  select_s: float
  traffic: step_traffic.StepTraffic


def gradient_s(task: Task, config: ConfigDict, turns: int = TURNS) -> float:
  """Measures the seconds of the loss and gradients of one worker's batch.

  Args:
    task: the model and its loss.
    config: of a run; its batch size, precision and micro-batches matter.
    turns: timed repetitions, of which the median is returned.
  """
  params, state = task.begin(jax.random.key(0))
  batch = jax.tree.map(jnp.asarray, examples(task, config.batch_size))
  gradient = jax.jit(of_batch(task, **precision(config)))
  key = jax.random.key(1)
  call = lambda: gradient(params, state, batch, key)
  return median_seconds({'gradient': call}, turns)['gradient']


def examples(task: Task, size: int) -> Tree:
  """The first examples of worker 0, arrays [size, ...]."""
  if isinstance(task.train, Shares):
    indices = task.train.rows[0]
    return stacked(task.train.source, indices[np.arange(size) % len(indices)])
  rows = np.arange(size) % len(jax.tree.leaves(task.train)[0][0])
  return jax.tree.map(lambda x: x[0][rows], task.train)


def of(
  config: ConfigDict, params: Tree, workers: int, turns: int = TURNS
) -> tuple[float, Cost]:
  """Measures the optimizer's seconds, and what the strategy adds to them.

  Args:
    config: of a run; its strategy, optimizer, steps and seed matter.
    params: of one worker; only shapes and dtypes matter.
    workers: how many.
    turns: timed repetitions of each call, of which the median is used.
  """
  local = optimizer.make(config.optimizer, config.steps)
  rate = optimizer.rate(config.optimizer, config.steps)
  strategy = resolve.strategy(config.strategy, rate, config.seed)
  steps, traffic = step_traffic.of_cycle(
    config.strategy,
    params,
    workers,
    training=config.steps,
    seed=config.seed,
    optimizer=local,
    rate=rate,
  )
  exchanges = np.asarray(traffic.sent.rounds).max(axis=0) > 0  # [steps]
  phases = periods.phases(config.strategy, steps)
  kinds = [f'{pair}' for pair in zip(exchanges, phases, strict=True)]
  empty = Strategy(identity(), identity())
  calls = {'optimizer': _update(empty, local, params, workers, 0)}
  for kind in dict.fromkeys(kinds):
    step = int(steps[kinds.index(kind)])
    calls[kind] = _update(strategy, local, params, workers, step)
  seconds = median_seconds(calls, turns)
  plain = seconds['optimizer']
  # A step without exchange may measure as shorter than the optimizer alone.
  added = [max(0.0, seconds[kind] - plain) for kind in kinds]
  return plain, Cost(float(traffic.shares @ added), traffic)


def _update(
  strategy: Strategy,
  local: optax.GradientTransformation,
  params: Tree,
  workers: int,
  step: int,
) -> Callable[[], Any]:
  """Returns a function that runs one worker's update on its last state."""
  init, update = make_worker(strategy, local)
  rng = np.random.default_rng(0)
  noise = jax.tree.map(
    lambda x: jnp.asarray(rng.standard_normal(x.shape, np.float32)), params
  )
  # Copied, since the memory is donated and init may return its argument.
  initial = jax.jit(alone(init, workers))(noise)
  state, t = [jax.tree.map(jnp.copy, initial)], jnp.int32(step)
  run = jax.jit(alone(update, workers), donate_argnums=0)

  def call():
    state[0], sent = run(state[0], noise, t)
    return state[0], sent

  return call
