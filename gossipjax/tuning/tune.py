"""Equal tuning: every variant tries the same number of points of a grid.

Each point is trained with every seed on a part of the training set and judged
on the rest of it (`split.validation`). The test set is not used.
"""

import csv
import io
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ml_collections import ConfigDict

from gossipjax.commands import console
from gossipjax.comparison import scores
from gossipjax.config.variants import variants
from gossipjax.errors import UserError, nearest
from gossipjax.results import reservation, workdir
from gossipjax.tasks import checks
from gossipjax.tasks.task import Task
from gossipjax.tuning import (
  best_points,
  config_source,
  doubts,
  grid,
  trials,
)

Row = trials.Row


class Tuned(NamedTuple):
  """What tuning found.

  Attributes:
    chosen: per variant the point with the best mean over seeds.
    rows: one per trial, see `trials.row`.
    config: the comparison with the chosen values.
    table: of the points, as Markdown.
  """

  chosen: dict[str, grid.Point]
  rows: list[Row]
  config: ConfigDict
  table: str


def best(
  config: ConfigDict,
  values: grid.Grid,
  seeds: int,
  folder: pathlib.Path,
  budget: int | None = None,
  processes: int = 1,
  metric: str | None = None,
  show: Callable[[Row, str], None] = lambda *_: None,
  interrupted: Callable[[], bool] = lambda: False,
) -> Tuned:
  """Tunes all variants, from where an earlier call in this folder stopped.

  Args:
    config: of a comparison, see gossipjax/config/defaults.py.
    values: the values to try, by key of the config. A variant that lacks a key
      is tuned without it.
    seeds: how many per point: the config's seed and those that follow it.
    folder: the workdir, for this config only; the grid may change.
    budget: points per variant, drawn from the grid; None for all of them.
    processes: how many train at the same time.
    metric: 'validation_SCORE' of one of the task's scores; None takes the one
      that `run` judges by: config.target_score, else accuracy, else
      loss, else the first by name.
    show: called with the row of each trial as it ends, and the metric.
    interrupted: asked after every step; True saves and stops.

  Raises:
    UserError: no usable grid, a number below 1, config.seeds, or a variant that
      diverged at every point.
  """
  _check_at_least_1(seeds=seeds, budget=budget, processes=processes)
  if config.get('seeds'):
    raise UserError(
      'tune does not use config.seeds; leave it empty, set --seeds=3.'
    )
  configs = dict(variants(config))
  grid.check(values, configs.values())
  tasks: dict[str, Task] = {}
  plan = trials.plan(configs, values, seeds, budget, folder, tasks)
  task = next(iter(tasks.values()))
  metric = _metric(metric, config, task)
  lock = reservation.reserved(folder, config, resume=True, kind='tune')
  with lock as warnings:
    for sentence in (*warnings, _choosing(metric), _amount(plan)):
      console.say(sentence)
    show_row = lambda row: show(row, metric)
    rows = trials.run(plan, processes, show_row, interrupted)
    workdir.write(folder / 'trials.csv', _csv(rows))
    chosen = best_points.choose(rows, values, metric, task.higher_is_better)
    doubtful = doubts.of(chosen, plan, rows, metric, task.higher_is_better)
    table = best_points.markdown(rows, values, metric, chosen, doubtful)
    tuned = Tuned(chosen, rows, config_source.pin(config, chosen), table)
    _write(folder, tuned)
  return tuned


def _choosing(metric: str) -> str:
  return f'{metric} chooses the best points; --metric names another.'


def _amount(plan: Sequence[trials.Trial]) -> str:
  """A sentence on how much there is to train."""
  done = sum((trial.folder / workdir.SUMMARY).exists() for trial in plan)
  steps = sum(trial.config.steps for trial in plan)
  before = f' ({done} of them finished)' * bool(done)
  return f'{len(plan)} trials{before}, {steps:,} steps in all.'


def _metric(metric: str | None, config: ConfigDict, task: Task) -> str:
  """Returns the score to choose by."""
  known = [f'validation_{name}' for name in checks.scores_of(task)]
  if metric is None:
    column, _ = scores.of_task(config, task)
    return f'validation_{column.removeprefix("test_")}'
  if metric not in known:
    raise UserError(f'--metric={metric} is unknown{nearest(metric, known)}')
  return metric


def _check_at_least_1(**numbers: int | None) -> None:
  for name, number in numbers.items():
    if number is not None and number < 1:
      raise UserError(f'--{name} must be at least 1, got {number}.')


def _write(folder: pathlib.Path, tuned: Tuned) -> None:
  """Writes trials.md and tuned.py."""
  workdir.write(folder / 'trials.md', tuned.table)
  title = f'The best of {len(tuned.rows)} trials, see trials.md beside it.'
  workdir.write(folder / 'tuned.py', config_source.source(tuned.config, title))


def _csv(rows: list[Row]) -> str:
  """The rows as CSV; variants without a key have an empty cell."""
  keys = dict.fromkeys(key for row in rows for key in row)
  text = io.StringIO()
  writer = csv.DictWriter(text, list(keys), lineterminator='\n')
  writer.writeheader()
  writer.writerows(rows)
  return text.getvalue()
