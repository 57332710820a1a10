"""Trainings in virtual time, judged by the seconds to a target.

The CNN of the workload `fashion` trains with 16 images per worker and step at
a constant learning rate, so that more workers do more in the same time. 3,000
images of the training set are held out. Rates are chosen with a seed that is
not scored.
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
EXAMPLES, BATCH, EPOCHS = 57_000, 16, 6
TARGET = 0.88
ASYNCHRONOUS = {'asynchronous': True}
SYNCHRONOUS = {'asynchronous': False}
TUNING_SEED = 100
MISSED = 1e8  # More seconds than any run takes.


def link(transfer_s: float) -> dict[str, float]:
  """Returns settings of a cluster whose links carry the CNN's parameters in
  `transfer_s`."""
  return {'latency_s': 1e-4, 'bytes_per_s': 4 * PARAMETERS / transfer_s}


def config(
  strategy: str,
  workers: int,
  scale: str,
  cluster: Mapping[str, Any],
  rate: float,
  **given: Any,
) -> ConfigDict:
  """Returns the config of a training until the target, for 6 epochs at most.

  Args:
    strategy: its name; `given` are its arguments.
    workers: how many.
    scale: 'cpu', or 'quick': an MLP on digits for 6 steps.
    cluster: what differs from the defaults of `config.cluster`.
    rate: learning rate of SGD with Nesterov momentum at which tuning starts.
  """
  quick = scale == 'quick'
  found = defaults.get_config()
  steps = 6 if quick else EPOCHS * EXAMPLES // (BATCH * workers)
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
  """Finds the rate that reaches the config's target first, then runs all seeds;
  returns `best_rate.Tuned`."""
  quick = scale == 'quick'
  return best_rate.tuned(
    WORKLOAD,
    config,
    seeds=1 if quick else seeds,
    trials=1 if quick else trials,
    score=partial(time_score, accuracy=config.cluster.target_accuracy),
    first_seed=TUNING_SEED,
  )


def best_rate_columns(tuned: best_rate.Tuned) -> dict[str, Any]:
  """Returns columns of the best rate, and of the seconds to the target at every
  rate, with the seed by which rates are compared."""

  def text(score: float | None) -> str:
    if score is None:
      return 'diverged'
    return f'{-score:.4g} s' if score > 1 - MISSED else 'not reached'

  return {
    'learning rate': tuned.rate,
    seed_statistics.INSIDE: tuned.inside,
    'virtual time by rate': '; '.join(
      f'{rate:.3g}: {text(score)}' for rate, score in tuned.curve.items()
    ),
  }


def time_score(run: Result, accuracy: float = TARGET) -> float | None:
  """Returns minus the seconds to the target. A run that misses it gets a score
  below all others, lower for a lower last accuracy; None if it diverged."""
  if run['diverged'] or not run['records']:
    return None
  if (seconds := to_target(run, accuracy)) is not None:
    return -seconds
  return -MISSED + run['records'][-1]['test_accuracy']


def to_target(run: Result, accuracy: float = TARGET) -> float | None:
  """Returns virtual seconds to a held-out accuracy; None if it is not reached.

  Between two evaluations the accuracy is interpolated linearly.
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
  """Returns each seed's seconds to a held-out accuracy; None if not reached."""
  return [
    None if run['diverged'] else to_target(run, accuracy) for run in tuned.runs
  ]


def mean_seconds(
  tuned: best_rate.Tuned, accuracy: float = TARGET
) -> float | None:
  """Returns mean seconds to a held-out accuracy; None if a seed misses it."""
  found = seconds(tuned, accuracy)
  if not found or None in found:
    return None
  return statistics.fmean(found)


def error(tuned: best_rate.Tuned) -> float | None:
  """Returns the standard error of `mean_seconds`; None with one seed, if a seed
  misses, or if the best rate is the lowest or the highest that was tried."""
  found = seconds(tuned)
  if len(found) < 2 or None in found or not tuned.inside:
    return None
  return standard_error(found)


def time_ratio(
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
