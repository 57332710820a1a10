"""Equal tuning: every variant tries as many points of the same grid.

    python -m gossipjax.tuning.tune --seeds=3 \
        --config=configs/fashion_mnist.py \
        --grid=optimizer.learning_rate=0.02,0.05,0.1 --workdir=runs/tuned
    python run.py --config=runs/tuned/tuned.py

--budget=N is a number of points per variant; each is trained with every seed
on a part of the training set and judged by the rest of it (`task.validation`).
The test set is not looked at. Leaves trials.md, trials.csv and tuned.py, which
pins the best values; finished trials are not run again, also not when the grid
grows.
"""

import pathlib
import time
from collections.abc import Callable
from typing import NamedTuple

import pandas as pd
from absl import app, flags
from ml_collections import ConfigDict, config_flags

from gossipjax import executors
from gossipjax.commands import console
from gossipjax.comparison import compare
from gossipjax.distributed import processes
from gossipjax.errors import UserError, nearest
from gossipjax.results import workdir
from gossipjax.tuning import best_points, config_source, grid, trials

Row = trials.Row
METRICS = best_points.METRICS


class Tuned(NamedTuple):
  """Attributes:
  chosen: per variant the point with the best mean over seeds.
  rows: one per trial, see `trials.row`.
  config: the comparison with the chosen values.
  """

  chosen: dict[str, grid.Point]
  rows: list[Row]
  config: ConfigDict


def best(
  config: ConfigDict,
  values: grid.Grid,
  seeds: int,
  folder: pathlib.Path,
  budget: int | None = None,
  processes: int = 1,
  metric: str = METRICS[0],
  show: Callable[[Row], None] = lambda _: None,
  interrupted: Callable[[], bool] = lambda: False,
) -> Tuned:
  """Tunes all variants, from where an earlier call in this folder stopped.

  Args:
    config: of a comparison, see gossipjax/config/defaults.py.
    values: to try, per key of the config. A variant without a key goes
      without it.
    seeds: of each point: the config's and those that follow it.
    folder: the workdir; of this config only, whatever the grid.
    budget: points per variant, drawn from the grid; None for all of them.
    processes: that train at the same time.
    metric: one of METRICS.
    show: called with the row of each trial as it ends.
    interrupted: asked after every step; True saves and stops.

  Raises:
    UserError: of the grid, of a number below 1, or a variant diverged always.
  """
  for name, number in (
    ('seeds', seeds),
    ('budget', budget),
    ('processes', processes),
  ):
    if number is not None and number < 1:
      raise UserError(f'--{name} is at least 1, got {number}.')
  if metric not in METRICS:
    raise UserError(f'--metric={metric} is unknown{nearest(metric, METRICS)}')
  variants = dict(compare.variants(config))
  grid.check(values, variants.values())
  plan = trials.plan(variants, values, seeds, budget, folder)
  workdir.claim(folder, config, resume=True)
  rows = trials.run(plan, processes, show, interrupted)
  workdir.write(folder / 'trials.csv', pd.DataFrame(rows).to_csv(index=False))
  chosen = best_points.choose(rows, values, metric)
  workdir.write(
    folder / 'trials.md', best_points.markdown(rows, values, metric, chosen)
  )
  tuned = config_source.pin(config, chosen)
  workdir.write(
    folder / 'tuned.py',
    config_source.source(
      tuned, f'The best of {len(rows)} trials, see trials.md beside it.'
    ),
  )
  return Tuned(chosen, rows, tuned)


def main(argv: list[str], interrupted: Callable[[], bool]) -> None:
  """The command line."""
  del argv
  if processes.distributed():
    raise UserError(
      '--distributed is for run.py; --processes=K trains K trials '
      'at the same time, on this machine.'
    )
  config, name = console.config()
  executors.emulate(compare.devices(run for _, run in compare.variants(config)))
  given = flags.FLAGS
  folder = pathlib.Path(
    given.workdir or f'runs/tune-{name}-{time.strftime("%Y%m%d-%H%M%S")}'
  )
  best(
    config,
    grid.parse(given.grid),
    given.seeds,
    folder,
    given.budget,
    given.processes,
    given.metric,
    _show,
    interrupted,
  )
  print((folder / 'trials.md').read_text())
  print(
    f'python run.py --config={folder}/tuned.py compares them at their '
    'best on the test set.'
  )


def _show(row: Row) -> None:
  values = {k: v for k, v in row.items() if '.' in k or k == 'seed'}
  score = row['diverged'] or (
    f'validation accuracy {row["validation_accuracy"]:.4f}'
  )
  console.say(
    f'{row["variant"]}, '
    f'{", ".join(f"{k}={v}" for k, v in values.items())}: {score}'
  )


def define_flags() -> None:
  """Here and not above, for claims have flags of their own."""
  config_flags.DEFINE_config_file('config', None, 'The comparison to tune.')
  flags.DEFINE_multi_string('grid', [], 'KEY=VALUE,VALUE; may be repeated.')
  flags.DEFINE_integer('seeds', 3, 'Trials of each point.')
  flags.DEFINE_integer('budget', None, 'Points per variant; default: all.')
  flags.DEFINE_integer('processes', 1, 'Trials at the same time.')
  flags.DEFINE_enum('metric', METRICS[0], METRICS, 'What to choose by.')
  flags.DEFINE_string('workdir', None, 'Where results go; it is continued.')


if __name__ == '__main__':
  define_flags()
  app.run(console.guarded(main, 'the same command'), flags_parser=console.parse)
