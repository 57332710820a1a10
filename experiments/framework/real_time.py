"""Trainings in processes of this machine that sleep as a trace says.

This emulates slower machines: a process computes a gradient, then sleeps until
the seconds of the trace are over.
"""

import json
import pathlib
import pickle
import sys
import tempfile
import time
from typing import Any, NamedTuple

import jax
import numpy as np
from ml_collections import ConfigDict

from experiments.framework import workloads
from gossipjax.config import defaults, resolve
from gossipjax.distributed import launcher, ports
from gossipjax.engine import setup
from gossipjax.engine import training as engine
from gossipjax.errors import UserError
from gossipjax.simulation import simulate
from gossipjax.training.record import Record
from gossipjax.training.run import resolve_run

BATCH = 16
PROCESS = 'experiments.framework.synchronous_process'


class Point(NamedTuple):
  """A point of a learning curve.

  Attributes:
    seconds: of training, without evaluations.
    accuracy: on held-out data.
  """

  seconds: float
  accuracy: float


def config(
  strategy: str,
  workers: int,
  steps: int,
  evaluations: int,
  seed: int,
  quick: bool,
  rate: float = 0.05,
) -> ConfigDict:
  """Returns a config without a cluster: the CNN on Fashion-MNIST, or if `quick`
  an MLP on digits.

  Args:
    strategy: its name.
    workers: number of workers, each with BATCH images per step.
    steps: largest number of steps.
    evaluations: number of evaluations within these steps.
    seed: of all that is random.
    quick: whether the run only shows that everything works.
    rate: learning rate of SGD with Nesterov momentum.
  """
  found = defaults.get_config()
  found.update(workers=workers, steps=steps, batch_size=BATCH, seed=seed)
  found.update(log_every=steps, eval_every=max(1, steps // evaluations))
  task = workloads.DIGITS if quick else workloads.WORKLOADS['fashion'].task
  found.task = defaults.task(**task)
  found.split = defaults.split(holdout='validation', validation=0.05)
  found.optimizer = defaults.optimizer('sgd', rate, momentum=0.9, nesterov=True)
  found.strategy = resolve.strategy_config(strategy)
  return found


def gradients_s(config: ConfigDict, strategy: str, count: int) -> list[float]:
  """Measures the seconds of single gradients of a task, in this process.

  Args:
    config: the config; its strategy does not matter.
    strategy: any strategy that the engine can run.
    count: number of gradients; three more come first and are left out.
  """
  changes = {'strategy': {'name': strategy}, 'cluster': defaults.cluster()}
  prepared = setup.of_run(resolve_run(ConfigDict(config.to_dict() | changes)))
  state, seconds = prepared.beginning(), []
  for step in range(count + 3):
    began = time.perf_counter()
    jax.block_until_ready(
      prepared.take(state.singles[0].own, state.server, 0, np.int32(step))
    )
    seconds.append(time.perf_counter() - began)
  return seconds[3:]


def write_trace(
  path: pathlib.Path, config: ConfigDict, mean_s: float, spread: float
) -> float:
  """Writes log-normal seconds of gradients, and returns their mean.

  Args:
    path: of the file; it has a column per worker and a line per step, more
      lines than any worker takes steps.
    config: the config, for its workers, steps and seed.
    mean_s: seconds of a gradient.
    spread: sigma of the logarithm.
  """
  draw = np.random.default_rng(config.seed)
  seconds = mean_s * draw.lognormal(
    -(spread**2) / 2, spread, (4 * config.steps, config.workers)
  )
  np.savetxt(path, seconds, '%.6f')
  return float(seconds.mean())


def train_asynchronous(config: ConfigDict, cluster: ConfigDict) -> list[Record]:
  """Trains on the engine, whose workers do not wait; returns its records."""
  real = ConfigDict({**config.to_dict(), 'cluster': cluster, 'engine': 'ray'})
  return list(engine.train(real, resolve_run(real), notify=print))


def train_synchronous(
  config: ConfigDict, trace: pathlib.Path, gradient_s: float, target: float
) -> list[Point]:
  """Trains in processes that wait for each other in every step; returns the
  learning curve.

  They communicate by Gloo over the loopback interface. Before each step process
  i sleeps for the seconds in column i of the trace less those of a gradient.

  Args:
    config: the config, of a strategy whose workers wait.
    trace: seconds of gradients, a line per step, a column per worker.
    gradient_s: seconds of one gradient in its own process.
    target: accuracy at which the training ends.

  Raises:
    UserError: a process failed.
  """
  with tempfile.TemporaryDirectory() as folder:
    spec, out = pathlib.Path(folder, 'spec'), pathlib.Path(folder, 'out')
    values = config.to_dict(), str(trace), gradient_s, target
    spec.write_bytes(pickle.dumps(values))  # JSON would lose tuples.
    with ports.reserved() as port:
      address, many = f'127.0.0.1:{port}', str(config.workers)
      words = [sys.executable, '-u', '-m', PROCESS, address, many]
      code = launcher.run(
        [*words, str(i), str(spec), str(out)] for i in range(config.workers)
      )
    if code:
      raise UserError(f'A training ended with exit code {code}; see above.')
    return [Point(*point) for point in json.loads(out.read_text())]


def timed_exchange(
  config: ConfigDict, trace: pathlib.Path, asked_s: float
) -> tuple[float, float]:
  """Trains on the engine. Returns the mean seconds of an exchange, as workers
  see it, and the mean seconds of computing, sleep included, over `asked_s`,
  the mean of the trace."""
  end = train_asynchronous(config, machines(trace))[-1]
  total = config.steps * config.workers * asked_s
  return sum(end.transfer_s) / max(1, end.exchanges), sum(end.compute_s) / total


def synchronous_exchange_s(
  config: ConfigDict, trace: pathlib.Path, gradient_s: float
) -> float:
  """Mean seconds that a step takes beyond its slowest gradient.

  Args:
    config: the config, with a record at its end only.
    trace, gradient_s: see `train_synchronous`.
  """
  slowest = np.loadtxt(trace)[1 : config.steps].max(axis=1).mean()
  (end,) = train_synchronous(config, trace, gradient_s, target=2.0)
  return max(0.0, end.seconds / config.steps - float(slowest))


def predicted(config: ConfigDict, cluster: ConfigDict) -> list[Record]:
  """Simulates the training in virtual time; returns its records."""
  virtual = ConfigDict({**config.to_dict(), 'cluster': cluster})
  return list(simulate.simulate(resolve_run(virtual)))


def curve(records: list[Record]) -> list[Point]:
  """Returns the learning curve of records of the engine or of virtual time."""
  return [Point(r.virtual_s, r.test_accuracy) for r in records]


def machines(trace: pathlib.Path, **given: Any) -> ConfigDict:
  """Returns the cluster for the engine and virtual time, with a trace."""
  return defaults.cluster(compute='trace', trace=str(trace), **given)
