"""Trainings in virtual time, judged by the seconds to a target.

The CNN of the workload `fashion` with 16 pictures per worker and step, at a
constant rate, so that more workers do more in the same time. Held out are 3,000
pictures of the training set; rates are chosen with another seed than those that
are scored.
"""

import statistics
from collections.abc import Mapping
from functools import partial
from typing import Any

from ml_collections import ConfigDict

from experiments.framework import (
  best_rate,
  seed_statistics,
  study,
  workloads,
)
from experiments.framework.single_run import Result
from gossipjax.config import defaults, resolve
from gossipjax.results.crossing import crossing
from gossipjax.results.standard_error import standard_error

WORKLOAD = 'fashion-virtual'
PARAMETERS = 220_234
PICTURES, BATCH, EPOCHS = 57_000, 16, 6
TARGET = 0.88
ASYNCHRONOUS = {'asynchronous': True}
WAITS = {'asynchronous': False}
TUNING_SEED = 100
MISSED = 1e8  # More seconds than any run takes.


def link(transfer_s: float) -> dict[str, float]:
  """Settings of a cluster whose links carry the CNN in so many seconds."""
  return {'latency_s': 1e-4, 'bytes_per_s': 4 * PARAMETERS / transfer_s}


def config(
  strategy: str,
  workers: int,
  scale: str,
  cluster: Mapping[str, Any],
  rate: float,
  **given: Any,
) -> ConfigDict:
  """Training in virtual time until the target, for 6 epochs at most.

  Args:
    strategy: its name; `given` are its arguments.
    workers: how many.
    scale: 'cpu', or 'quick': an MLP on digits for 6 steps.
    cluster: what differs from the defaults of `config.cluster`.
    rate: eta of SGD with Nesterov's momentum, where tuning sets out.
  """
  quick = scale == 'quick'
  found = defaults.get_config()
  steps = 6 if quick else EPOCHS * PICTURES // (BATCH * workers)
  found.update(
    workers=workers,
    steps=steps,
    batch_size=BATCH,
    log_every=max(1, steps // 60),
    eval_every=max(1, steps // 60),
    checkpoint_every=0,
  )
  task = workloads.DIGITS if quick else workloads.WORKLOADS['fashion'].task
  found.task = defaults.task(**task)
  found.split = defaults.split(holdout='validation', validation=0.05)
  found.optimizer = defaults.optimizer('sgd', rate, momentum=0.9, nesterov=True)
  found.strategy = resolve.strategy_config(strategy, **given)
  found.cluster = defaults.cluster(
    **{'target_accuracy': TARGET, **cluster, 'compute': 'lognormal'}
  )
  return found


def tuned(
  config: ConfigDict,
  scale: str,
  trials: int = best_rate.TRIALS,
  seeds: int = best_rate.SEEDS,
) -> study.Study:
  """The rate that is first at the config's target, then all seeds;
  `best_rate.Tuned`."""
  quick = scale == 'quick'
  return best_rate.tuned(
    WORKLOAD,
    config,
    seeds=1 if quick else seeds,
    trials=1 if quick else trials,
    score=partial(speed, accuracy=config.cluster.target_accuracy),
    first_seed=TUNING_SEED,
  )


def at_best(tuned: best_rate.Tuned) -> dict[str, Any]:
  """Columns of the best rate, and of the seconds to the target of all rates
  with the seed that they are compared with."""

  def took(score: float | None) -> str:
    if score is None:
      return 'diverged'
    return f'{-score:.4g} s' if score > 1 - MISSED else 'not reached'

  return {
    'learning rate': tuned.rate,
    seed_statistics.INSIDE: tuned.inside,
    'virtual time by rate': '; '.join(
      f'{rate:.3g}: {took(score)}' for rate, score in tuned.curve.items()
    ),
  }


def speed(run: Result, accuracy: float = TARGET) -> float | None:
  """Minus the seconds to the target; below all of these if it is not reached,
  the more so the worse the last accuracy. None if the run diverged."""
  if run['diverged'] or not run['records']:
    return None
  if (seconds := to_target(run, accuracy)) is not None:
    return -seconds
  return -MISSED + run['records'][-1]['test_accuracy']


def to_target(run: Result, accuracy: float = TARGET) -> float | None:
  """Virtual seconds until a held-out accuracy; None if it is never reached.

  Between two evaluations on the straight line.
  """
  curve = [
    (record['virtual_s'], record['test_accuracy'])
    for record in run['records']
    if record.get('test_accuracy') is not None
  ]
  return crossing([(0.0, 0.0), *curve], accuracy)


def seconds(
  tuned: best_rate.Tuned, accuracy: float = TARGET
) -> list[float | None]:
  """To a held-out accuracy, of each seed."""
  return [
    None if run['diverged'] else to_target(run, accuracy) for run in tuned.runs
  ]


def mean_seconds(
  tuned: best_rate.Tuned, accuracy: float = TARGET
) -> float | None:
  """To a held-out accuracy; None if a seed does not reach it."""
  found = seconds(tuned, accuracy)
  if not found or None in found:
    return None
  return statistics.fmean(found)


def error(tuned: best_rate.Tuned) -> float | None:
  """Standard error of `mean_seconds`; None with one seed, without it, or where
  the best rate is the lowest or the highest that was tried."""
  found = seconds(tuned)
  if len(found) < 2 or None in found or not tuned.inside:
    return None
  return standard_error(found)


def over(
  mine: best_rate.Tuned,
  base: best_rate.Tuned | None,
  accuracy: float = TARGET,
) -> tuple[float | None, float | None]:
  """`seed_statistics.ratio` of the seconds to a held-out accuracy; without an
  error if a best rate is the lowest or the highest that was tried."""
  if base is None:
    return None, None
  found, error = seed_statistics.ratio(
    seconds(mine, accuracy), seconds(base, accuracy)
  )
  return found, error if mine.inside and base.inside else None
