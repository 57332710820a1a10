"""Short runs in virtual time that differ only in what a claim compares."""

from typing import Any

from ml_collections import ConfigDict

from gossipjax.config import defaults, resolve

Run = list[dict[str, Any]]  # Records, as dicts.
ASYNCHRONOUS = {'asynchronous': True}
WAITS = {'asynchronous': False}
PARAMETERS = 784 * 32 + 32 + 32 * 10 + 10  # Of the MLP with 32 hidden units.


def link(transfer_s: float) -> dict[str, float]:
  """Settings of a cluster whose links carry that model in so many seconds."""
  return {'latency_s': 1e-4, 'bytes_per_s': 4 * PARAMETERS / transfer_s}


def config(
  strategy: str,
  workers: int,
  steps: int,
  rate: float,
  momentum: float = 0.9,
  cluster: dict[str, Any] | None = None,
  eval_every: int = 5,
  width: int = 32,
  schedule: str = 'constant',
  **given: Any,
) -> ConfigDict:
  """An MLP on Fashion-MNIST; judged by 1,200 pictures of the training set.

  Args:
    strategy: its name; `given` are its arguments.
    rate: eta of SGD, with Nesterov's `momentum`.
    cluster: what differs from the defaults.
    width: of the hidden layer.
    schedule: of the rate, see `optimizer.schedule`.
  """
  run = defaults.get_config()
  run.update(
    workers=workers,
    steps=steps,
    batch_size=16,
    log_every=eval_every,
    eval_every=eval_every,
    checkpoint_every=0,
  )
  run.task = defaults.task('fashion_mnist', model='mlp', width=width, layers=1)
  run.split = defaults.split(holdout='validation', validation=0.02)
  run.optimizer = defaults.optimizer(
    'sgd', rate, schedule=schedule, momentum=momentum, nesterov=momentum > 0
  )
  run.strategy = resolve.strategy_config(strategy, **given)
  run.cluster = defaults.cluster(**(cluster or {}))
  return run


def to_target(records: Run, accuracy: float) -> float | None:
  """Virtual seconds until a held-out accuracy; None if it is never reached.

  Between two evaluations on the straight line.
  """
  before = (0.0, 0.0)
  for record in records:
    if record['test_accuracy'] is None:
      continue
    now = record['virtual_s'], record['test_accuracy']
    if now[1] >= accuracy:
      share = (accuracy - before[1]) / (now[1] - before[1])
      return before[0] + share * (now[0] - before[0])
    before = now
  return None
