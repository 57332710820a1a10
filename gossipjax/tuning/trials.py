"""Trials: short trainings, each at one point of a grid, with one seed."""

import multiprocessing
import os
import pathlib
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from gossipjax import executors
from gossipjax.comparison import compare
from gossipjax.comparison.summary import not_finite
from gossipjax.comparison.variant import check
from gossipjax.errors import UserError
from gossipjax.training.loop import Interrupted
from gossipjax.training.run import devices
from gossipjax.tuning import grid

Row = dict[str, Any]


class Trial(NamedTuple):
  """One trial.

  Attributes:
    variant: its name.
    point: its values of the grid's keys.
    config: with these values and the seed; evaluates on validation data.
    folder: of its records and its summary; named after point and seed.
  """

  variant: str
  point: grid.Point
  config: ConfigDict
  folder: pathlib.Path


def plan(
  variants: Mapping[str, ConfigDict],
  values: grid.Grid,
  seeds: int,
  budget: int | None,
  folder: pathlib.Path,
  tasks: dict[str, Any] | None = None,
) -> list[Trial]:
  """Returns all trials; each point is checked. See `tune.best`.

  Args:
    variants, values, seeds, budget, folder: see `tune.best`.
    tasks: tasks loaded so far; grows.
  """
  trials, tasks = [], {} if tasks is None else tasks
  for name, config in variants.items():
    for point in grid.points(values, config, budget):
      for seed in range(config.seed, config.seed + seeds):
        seeded = {**point, 'seed': seed}
        trial_config = grid.of_trial(config, seeded)
        if seed == config.seed:
          check(name, trial_config, tasks)
        trial_folder = folder / name / grid.folder_name(seeded)
        trials.append(Trial(name, point, trial_config, trial_folder))
  return trials


def run(
  trials: Sequence[Trial],
  processes: int,
  show: Callable[[Row], None],
  interrupted: Callable[[], bool],
) -> list[Row]:
  """Runs the trials that are not finished; returns a row for each trial."""
  summaries: Iterable[Mapping[str, Any]]
  if processes == 1:
    summaries = (finish(trial, interrupted) for trial in trials)
  else:
    summaries = _over_processes(trials, processes, interrupted)
  rows = []
  for trial, summary in zip(trials, summaries, strict=True):
    rows.append(row(trial, summary))
    show(rows[-1])
  return rows


def row(trial: Trial, summary: Mapping[str, Any]) -> Row:
  """The row of a trial in the table; without scores if it diverged."""
  scores = {'train_loss': summary.get('train_loss')} | {
    f'validation_{name.removeprefix("test_")}': value
    for name, value in summary.items()
    if name.startswith('test_')
  }
  # An earlier version may have left a summary with NaN.
  diverged = summary.get('diverged') or not_finite(summary)
  if diverged:
    scores = dict.fromkeys(scores)
  return {
    'variant': trial.variant,
    **trial.point,
    'seed': trial.config.seed,
    **scores,
    'bytes_sent': summary.get('bytes_sent'),
    'train_s': summary.get('train_s'),
    'diverged': diverged,
  }


def finish(
  trial: Trial,
  interrupted: Callable[[], bool],
  tasks: dict[str, Any] | None = None,
) -> Mapping[str, Any]:
  """Trains a trial unless it is finished.

  Args:
    trial: the trial to finish.
    interrupted: asked after every step; True saves and stops.
    tasks: tasks loaded so far; grows.

  Returns:
    Its summary, which says so if the trial diverged.

  Raises:
    UserError: it took no step, since it waited for a worker in vain.
  """
  variant = check(trial.variant, trial.config, tasks)
  summary = compare.run_one(
    variant, trial.folder, False, lambda *_: None, interrupted
  )
  # A finished trial is never resumed.
  shutil.rmtree(trial.folder / 'checkpoints', ignore_errors=True)
  if not summary['steps'] and not summary['diverged']:
    raise UserError(
      f'{trial.variant} took no step: its first round waited for a worker '
      'until cluster.timeout_s; leave it out, or change cluster.failures.'
    )
  return summary


_stopping: Any = None  # In a process of a pool: whether all are to stop.


def _begin(stopping: Any, devices: int) -> None:
  global _stopping
  _stopping = stopping
  for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)  # The parent passes it on.
  threading.Thread(target=_end_with_the_parent, daemon=True).start()
  executors.emulate(devices)


def _end_with_the_parent() -> None:
  """Exits when the parent ends, which alone locks the folder of the trials."""
  if parent := multiprocessing.parent_process():
    parent.join()
    os._exit(1)


def _work(trial: Trial) -> Mapping[str, Any]:
  if _stopping.is_set():
    raise Interrupted(0)
  return finish(trial, _stopping.is_set)


def _over_processes(
  trials: Sequence[Trial], processes: int, interrupted: Callable[[], bool]
) -> Iterator[Mapping[str, Any]]:
  context = multiprocessing.get_context('spawn')  # JAX does not survive a fork.
  stopping = context.Event()
  needed = devices(trial.config for trial in trials)
  with ProcessPoolExecutor(
    processes, context, _begin, (stopping, needed)
  ) as pool:
    try:
      for future in [pool.submit(_work, trial) for trial in trials]:
        yield _result(future, stopping, interrupted)
    finally:
      stopping.set()


def _result(
  future: Future, stopping: Any, interrupted: Callable[[], bool]
) -> Mapping[str, Any]:
  while not future.done():
    if interrupted():
      stopping.set()
    wait([future], timeout=0.2)
  try:
    return future.result()
  except BrokenProcessPool as error:
    raise UserError(
      'A process with a trial was killed, perhaps for memory; '
      'the same command with fewer --processes continues.'
    ) from error
