"""`train` against the same training by hand: ResNet-8 on CIFAR-10.

    GOSSIPJAX_DATA=... python -m benchmarks.end_to_end

Eight emulated workers, batches of 16, all-reduce. Data order, augmentation and
loss are the same functions; by hand there is no ledger, no record, no worker.

On 2 shared, busy cores, 2026-11-20, commit 9f039f7 (quartiles in brackets):

    images/s: train 799, by hand 763
    a step of train over the same by hand, medians of 24 turns:
      wall_s 0.969 (0.803 to 1.188), cpu_s 0.999 (0.986 to 1.034)
"""

import functools
import statistics
from collections.abc import Iterator

import jax
import numpy as np
from ml_collections import ConfigDict

from benchmarks import by_hand, printing
from configs import cifar10
from gossipjax import executors
from gossipjax.data.batch import batch
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train

CHUNK = 5  # Steps in a turn.
TURNS = 24


def settings() -> ConfigDict:
  """configs/cifar10.py at a constant rate, without evaluations."""
  config = cifar10.get_config('all_reduce')
  config.update(steps=10**6, log_every=CHUNK, eval_every=0)
  config.optimizer.update(schedule='constant', warmup_steps=0)
  return config


def hand_written(config: ConfigDict) -> Iterator[jax.Array]:
  """The same training by hand."""
  task, rate = resolve_run(config).task, config.optimizer
  program = by_hand.step(
    task.loss,
    functools.partial(batch, size=config.batch_size),
    rate.learning_rate,
    rate.momentum,
    rate.weight_decay,
  )
  params = task.init(jax.random.key(config.seed))
  return by_hand.train(program, params, task.train, config.seed, CHUNK)


def check(config: ConfigDict) -> None:
  """Checks that both have the same loss after CHUNK steps."""
  copy = config.copy_and_resolve_references()
  copy.update(log_every=1)
  ours = [
    r.train_loss
    for r, _ in zip(train(resolve_run(copy)), range(CHUNK), strict=False)
  ]
  theirs = float(np.mean(next(hand_written(config))))
  np.testing.assert_allclose(ours[-1], theirs, rtol=1e-3)


def main() -> None:
  config = settings()
  executors.emulate(config.workers)
  check(config)
  ours, theirs = printing.in_turns(
    train(resolve_run(config)), hand_written(config), TURNS
  )
  images = config.workers * config.batch_size * CHUNK
  rate = lambda costs: images / statistics.median(c.wall_s for c in costs)
  print(f'images/s: train {rate(ours):,.0f}, by hand {rate(theirs):,.0f}')
  printing.report('a step of train', ours, theirs)


if __name__ == '__main__':
  main()
