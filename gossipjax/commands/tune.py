"""Tunes every variant equally: each tries the same number of grid points.

    python -m gossipjax tune --config=configs/fashion_mnist.py --seeds=3 \\
        --grid=optimizer.learning_rate=0.02,0.05,0.1 --workdir=runs/tuned
    python -m gossipjax run --config=runs/tuned/tuned.py

--budget=N limits the points per variant. Each point is trained with every seed
on a part of the training set and scored on the last tenth of it
(`split.validation`), or on the task's own validation examples; the test set is
not used. Writes trials.md, trials.csv and tuned.py, a config with the best
values. Finished trials are not run again, even if the grid grows: the same
command continues with the trials that are left.
"""

import shlex
from collections.abc import Callable, Sequence

from absl import flags
from ml_collections import config_flags

from gossipjax.commands import command_line, console
from gossipjax.config.variants import variants
from gossipjax.distributed import gpus, processes
from gossipjax.errors import UserError
from gossipjax.tuning import grid, trials, tune


def start(words: Sequence[str]) -> None:
  """Runs `tune` with the words that follow it on the command line."""
  command_line.start(
    __doc__, define_flags, main, words, again='the same command'
  )


def define_flags() -> None:
  """Defines the flags; a function, since commands share some flag names."""
  config_flags.DEFINE_config_file('config', None, 'The comparison to tune.')
  flags.DEFINE_multi_string('grid', [], 'KEY=VALUE,VALUE; may be repeated.')
  flags.DEFINE_integer('seeds', 3, 'Seeds of each point.')
  flags.DEFINE_integer('budget', None, 'Points per variant; default: all.')
  flags.DEFINE_integer('processes', 1, 'Trials that run at the same time.')
  flags.DEFINE_string(
    'metric',
    None,
    'validation_SCORE to choose by; default: that of config.target_score, else '
    'the accuracy, else the loss, else the first by name.',
  )
  flags.DEFINE_string(
    'workdir', None, 'Where results go; the same one continues them.'
  )


def main(argv: Sequence[str], interrupted: Callable[[], bool]) -> None:
  """Runs the trials and prints trials.md.

  Raises:
    UserError: the flags, the grid or the config are not usable.
  """
  del argv
  if processes.distributed():
    raise UserError(
      '--distributed is for `run`; --processes=K trains K trials '
      'at the same time, on this machine.'
    )
  config, name = command_line.config()
  if flags.FLAGS.processes > 1:
    gpus.share_memory()
  command_line.prepare_devices(run for _, run in variants(config))
  given = flags.FLAGS
  folder = console.workdir(f'tune-{name}')
  tuned = tune.best(
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
  print(tuned.table)
  again = shlex.join([f'--config={folder}/tuned.py'])
  print(
    f'python -m gossipjax run {again} compares them at their best on the test '
    'set.'
  )


def _show(row: trials.Row, metric: str) -> None:
  """Prints one line of a finished trial, with the score that decides."""
  names = [*row]  # The variant, the keys of its point, its seed.
  values = {k: row[k] for k in names[1 : names.index('seed') + 1]}
  score = row['diverged'] or f'{metric.replace("_", " ")} {row[metric]:.4f}'
  console.say(
    f'{row["variant"]}, '
    f'{", ".join(f"{k}={v}" for k, v in values.items())}: {score}'
  )
