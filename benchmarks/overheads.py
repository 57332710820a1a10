"""The cost of a user's task, a data source, and several devices per worker.

    GOSSIPJAX_DATA=... python -m benchmarks.overheads [door] [source] [devices]

ResNet-8 on CIFAR-10, batches of 16, all-reduce, steps through `train`:

  door     the same task from a function that is named, over the built-in one
  source   the same examples read by grain, over arrays on the devices
  devices  4 workers of 2 devices, over the same step by hand on that mesh

Each ratio compares steps in alternating turns. On 2 shared cores that ran
nothing else, 2026-11-22, medians of 24 turns (quartiles in brackets):

    door over the built-in task:
      wall_s 1.009 (0.956 to 1.044), cpu_s 1.015
    source over arrays:
      wall_s 1.022 (0.985 to 1.066), cpu_s 1.018 (0.982 to 1.063)
    devices over the same by hand:
      wall_s 0.981 (0.947 to 1.045), cpu_s 0.979 (0.956 to 1.054)
"""

import itertools
import os
import sys
from collections.abc import Iterator

import jax
import numpy as np
from jax import lax
from ml_collections import ConfigDict

import gossipjax as gj
from benchmarks import by_hand, end_to_end, printing
from gossipjax import executors
from gossipjax.collectives import INNER
from gossipjax.config import defaults, resolve
from gossipjax.data.batch import batch
from gossipjax.data.sources import Source
from gossipjax.training.record import Record
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train

DEVICES = 2
# The largest acceptable ratio, and what it is over.
LIMITS = {
  'door': (1.02, 'the built-in task'),
  'source': (1.05, 'arrays'),
  'devices': (1.05, 'the same by hand'),
}


class Rows(Source):
  """Examples of arrays, one at a time."""

  def __init__(self, arrays):
    self._arrays, self.labels = arrays, arrays[-1]

  def __len__(self) -> int:
    return len(self.labels)

  def __getitem__(self, index: int):
    return jax.tree.map(lambda x: x[index], self._arrays)


def own(read: bool = False) -> gj.Task:
  """Makes the task of configs/cifar10.py; if `read`, with a data source."""
  config = end_to_end.settings().task
  task = resolve.task(config, os.environ.get('GOSSIPJAX_DATA', ''))
  return task._replace(train=Rows(task.train)) if read else task


def settings(**changes) -> ConfigDict:
  """Returns the config of end_to_end with changes."""
  config = end_to_end.settings()
  config.update(changes)
  return config


def with_own(read: bool = False) -> ConfigDict:
  config = settings()
  with config.ignore_type(), config.unlocked():
    config.task = defaults.task('benchmarks.overheads:own', read=read)
  return config


def stepping(config: ConfigDict) -> Iterator[Record]:
  return train(resolve_run(config))


def step_by_hand(config: ConfigDict) -> Iterator[jax.Array]:
  """The step of workers of several devices, written by hand."""
  task, optimizer = resolve_run(config).task, config.optimizer

  def part(examples, key, t):
    share = lax.axis_index(INNER), DEVICES
    return batch(examples, key, t, config.batch_size, part=share)

  program = by_hand.step(
    task.loss,
    part,
    optimizer.learning_rate,
    optimizer.momentum,
    optimizer.weight_decay,
    inner=INNER,
  )
  params = task.init(jax.random.key(config.seed))
  return by_hand.train(
    program, params, task.train, config.seed, end_to_end.CHUNK, (INNER, DEVICES)
  )


def both(name: str) -> tuple[Iterator, Iterator]:
  """Returns the trainings to compare, after checking that losses agree."""
  if name == 'devices':
    layout = {'workers': 4, 'devices_per_worker': DEVICES}
    theirs = step_by_hand(settings(**layout))
    # The last loss of a turn; records have the mean over their steps.
    records = stepping(settings(**layout, log_every=1))
    *_, last = itertools.islice(records, end_to_end.CHUNK)
    np.testing.assert_allclose(last.train_loss, next(theirs).mean(), rtol=1e-3)
    return stepping(settings(**layout)), theirs
  pair = stepping(with_own(name == 'source')), stepping(settings())
  np.testing.assert_allclose(*(next(p).train_loss for p in pair), rtol=1e-3)
  return pair


def main() -> None:
  executors.emulate(end_to_end.settings().workers)
  print(f'load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores')
  for name in sys.argv[1:] or LIMITS:
    _report(name, *both(name))


def _report(name: str, ours: Iterator, theirs: Iterator) -> None:
  costs = printing.in_turns(ours, theirs, end_to_end.TURNS)
  limit, over = LIMITS[name]
  printing.report(f'{name} (at most {limit})', *costs, over=over)


if __name__ == '__main__':
  main()
