"""One training, resolved: what a config says, as typed values."""

import dataclasses
import json
from collections.abc import Iterable
from typing import NamedTuple

import optax
from ml_collections import ConfigDict

from gossipjax import executors
from gossipjax.aggregator import Strategy
from gossipjax.config import arguments, ranges, resolve
from gossipjax.config.variants import INTEGERS
from gossipjax.errors import UserError
from gossipjax.network import Link
from gossipjax.simulation.cluster import Cluster, cluster
from gossipjax.tasks.shares import share_out
from gossipjax.tasks.task import Task
from gossipjax.training import gradient, model_state, optimizer


@dataclasses.dataclass(frozen=True)
class Run:
  """All that training needs to know; nothing behind it reads a config.

  Attributes:
    workers: how many.
    steps: local steps of each worker.
    batch_size: examples per worker and step.
    seed: of initial parameters, data split and data order.
    log_every: steps between two records.
    eval_every: steps between two held-out evaluations; 0 is at the end only.
    checkpoint_every: steps between two checkpoints; 0 is at the end only.
    task: model, loss and examples.
    strategy: how workers communicate.
    optimizer: of each worker.
    executor: how the workers' programs run.
    links: by name, to model communication; the first is the config's.
    cluster: the machines of virtual time; None trains in lock-step.
    compute_dtype, accumulate: see gradient.py.
  """

  workers: int
  steps: int
  batch_size: int
  seed: int
  log_every: int
  eval_every: int
  checkpoint_every: int
  task: Task
  strategy: Strategy
  optimizer: optax.GradientTransformation
  executor: executors.Executor
  links: dict[str, Link]
  cluster: Cluster | None
  compute_dtype: str = ''
  accumulate: int = 0


class Given(NamedTuple):
  """What stands in place of a config's names; None: the config's.

  Attributes:
    task: with its examples not yet shared out.
    strategy: how workers communicate.
    optimizer: of each worker.
  """

  task: Task | None = None
  strategy: Strategy | None = None
  optimizer: optax.GradientTransformation | None = None


def resolve_run(
  config: ConfigDict,
  tasks: dict[str, Task] | None = None,
  given: Given = Given(),
) -> Run:
  """Builds everything that a config names, cheap things first.

  Args:
    config: of one run, see gossipjax/config/defaults.py for the keys.
    tasks: those that other runs have loaded, to be shared; may grow.
    given: in place of what the config names.

  Raises:
    UserError: the config asks for something impossible.
  """
  ranges.check({k: v for k, v in config.items() if k != 'variants'})
  links = resolve.links(config.link)
  if given.strategy is None and given.optimizer is None:
    optimizer.check_momentum(config.strategy, config.optimizer)
  numbers = {key: config[key] for key in INTEGERS}
  precision = {
    'compute_dtype': config.get('compute_dtype', ''),
    'accumulate': config.get('accumulate', 0),
  }
  gradient.check(**precision, batch_size=config.batch_size)
  period = config.get('state_period', 0)
  strategy = given.strategy or resolve.strategy(
    config.strategy, optimizer.rate(config.optimizer, config.steps)
  )
  strategy = strategy._replace(state=model_state.in_training(period))
  machines = _machines(config, next(iter(links.values())), strategy)
  local = given.optimizer or optimizer.make(config.optimizer, config.steps)
  # In virtual time all workers share a device.
  executor = executors.executor(
    config.workers, 'vmap' if machines else config.executor
  )
  return Run(
    **numbers,
    task=task(config, executor.mine, tasks, given.task),
    strategy=strategy,
    optimizer=local,
    executor=executor,
    links=links,
    cluster=machines,
    **precision,
  )


def _machines(
  config: ConfigDict, link: Link, strategy: Strategy
) -> Cluster | None:
  if not config.get('cluster'):
    return None
  found = arguments.call(
    cluster, config.cluster, 'cluster', config.workers, config.steps, link
  )
  if found.asynchronous and strategy.async_exchange is None:
    raise UserError(
      f'strategy {config.strategy.name} needs all workers at once; '
      'set cluster.asynchronous=False.'
    )
  if found.asynchronous and strategy.state is not None:
    raise UserError(
      'config.state_period is a mean over all workers at once; set it to 0, or '
      'cluster.asynchronous=False.'
    )
  return found


def task(
  config: ConfigDict,
  mine: slice = slice(None),
  tasks: dict[str, Task] | None = None,
  given: Task | None = None,
) -> Task:
  """The task of `config.task`, with examples for `mine` of the workers.

  Args:
    config: of one run.
    mine: workers of this process.
    tasks: those loaded so far, to be shared; may grow.
    given: in place of the one that the config names.
  """
  tasks = {} if tasks is None else tasks
  of_task = [config.task.to_dict(), config.data.dir]
  shared = [config.split.to_dict(), config.workers, config.seed, str(mine)]
  key = json.dumps([of_task, shared], sort_keys=True)
  if key not in tasks:
    found = given or resolve.task(config.task, config.data.dir)
    tasks[key] = arguments.call(
      share_out, config.split, 'split', found, config.workers, config.seed, mine
    )
  return tasks[key]


def devices(configs: Iterable[ConfigDict]) -> int:
  """Devices to emulate for these runs; virtual time needs one."""
  return max(
    1 if config.get('cluster') else config.workers for config in configs
  )
