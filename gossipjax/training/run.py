"""One training run: what a config says, resolved to typed values."""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import optax
from ml_collections import ConfigDict

from gossipjax import executors
from gossipjax.aggregator import Strategy
from gossipjax.config import arguments, in_python_arguments, ranges, resolve
from gossipjax.config.variant_checks import INTEGERS
from gossipjax.devices.inner_devices import ALONE, Inner
from gossipjax.network import Link
from gossipjax.simulation.cluster import Cluster
from gossipjax.tasks.shares import share_out
from gossipjax.tasks.task import Task
from gossipjax.training import (
  gradient,
  inner,
  machines,
  model_state,
  momentum,
  optimizer,
  overlap_slot,
)


@dataclasses.dataclass(frozen=True)
class Run:
  """All that training needs to know, in place of a config.

  Only an engine takes the config, too: its processes make their own Run of it.

  Attributes:
    workers: how many.
    steps: local steps of each worker.
    batch_size: examples per worker and step.
    seed: of initial parameters, data split, data order and compute times.
    log_every: steps between two records.
    eval_every: steps between two held-out evaluations; 0: at the end only.
    checkpoint_every: steps between two checkpoints; 0: at the end only.
    task: model, loss and examples.
    strategy: how workers communicate.
    optimizer: of each worker.
    executor: how the workers' programs run.
    links: by name, to model communication; the first is the config's.
    inner: what the devices of a worker do among themselves.
    inner_link: of each of them to the others; None if a worker is one device.
    cluster: the machines of virtual time; None trains in lock-step.
    compute_dtype, accumulate: see gradient.py.
    engine: what runs workers that do not wait in real time; '' is virtual time.
    overlap: whether exchanges overlap with computing, see overlap.py.
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
  inner: Inner = ALONE
  inner_link: Link | None = None
  compute_dtype: str = ''
  accumulate: int = 0
  engine: str = ''
  overlap: bool = False


class Overrides(NamedTuple):
  """Objects that replace what a config names; None: what the config names.

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
  given: Overrides = Overrides(),
) -> Run:
  """Builds everything that a config names, cheap things first.

  Args:
    config: of one run, see gossipjax/config/defaults.py for the keys.
    tasks: tasks that other runs have loaded, to be shared; may grow.
    given: objects in place of what the config names.

  Raises:
    UserError: the config asks for something impossible.
  """
  ranges.check({k: v for k, v in config.items() if k != 'variants'})
  inner.check(config)
  links = resolve.links(config.link, group=config.get('group_link', ''))
  if given.strategy is None and given.optimizer is None:
    momentum.check(config.strategy, config.optimizer)
  numbers = {key: config[key] for key in INTEGERS}
  strategy = _strategy(config, given.strategy)
  how = precision(config) | {'overlap': overlap_slot.check(config, strategy)}
  engine = machines.engine(config, given != Overrides())
  cluster = machines.of_config(config, next(iter(links.values())), strategy)
  transform = given.optimizer or optimizer.make(
    config.optimizer, config.steps, config.seed
  )
  # In virtual time all workers share a device, whichever is named.
  known = config.executor in executors.NAMES
  name = 'vmap' if cluster and known else config.executor
  executor = executors.executor(config.workers, name, inner.devices(config))
  split_task = task(config, executor.local_workers, tasks, given.task)
  within = inner.make(config, split_task, given.optimizer)
  return Run(
    **numbers,
    task=split_task,
    strategy=within.exchanging(strategy),
    optimizer=transform,
    inner=within,
    inner_link=inner.link(config),
    executor=executor,
    links=links,
    cluster=cluster,
    **how,
    engine=engine,
  )


def _strategy(config: ConfigDict, given: Strategy | None) -> Strategy:
  """How workers communicate, including the states of their models."""
  if given:
    strategy = in_python_arguments.with_seed(given, config.seed)
  else:
    rate = optimizer.rate(config.optimizer, config.steps)
    strategy = resolve.strategy(config.strategy, rate, config.seed)
  period = config.get('state_period', 0)
  return strategy._replace(state=model_state.in_training(period))


def precision(config: ConfigDict) -> dict[str, Any]:
  """The arguments of `gradient.of_batch` that a config has, checked."""
  options = {
    'compute_dtype': config.get('compute_dtype', ''),
    'accumulate': config.get('accumulate', 0),
  }
  gradient.check(
    **options, batch_size=config.batch_size, devices=inner.devices(config)
  )
  return options


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
  """Devices to emulate for these runs; virtual time or an engine needs one."""
  in_lock_step = (
    config
    for config in configs
    if not (config.get('cluster') or config.get('engine'))
  )
  needed = (config.workers * inner.devices(config) for config in in_lock_step)
  return max(needed, default=1)
