"""Runs that are known: those kept in the repository, and workdirs given.

known_runs.csv is written by `python -m experiments.framework.results_page`, so
that an installed package has them too.
"""

import csv
import math
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gossipjax.comparison import answer, target_costs
from gossipjax.config.variants import merged_by_name
from gossipjax.results import reader

PATH = pathlib.Path(__file__).with_name('known_runs.csv')
DENSE = answer.DENSE
UNLIKE = 4  # Distance of runs that share neither task nor kind of model.
FAMILIES = {
  'convolutional network': ('cnn', 'resnet', 'vgg', 'shallow'),
  'dense network': ('mlp', 'linear'),
  'recurrent network': ('lstm',),
  'transformer': ('transformer',),
}


class Known(NamedTuple):
  """A run, and all-reduce beside it.

  Attributes:
    table: where it comes from: a file of kept runs, or a workdir.
    task, model: of the config; '' of a task without such an argument.
    optimizer: its name.
    workers: how many.
    strategy: its name, whatever the variant is called.
    score: name of the column, such as test_accuracy.
    value: of the run, at its end or at its best.
    dense: of all-reduce.
    missed: share of the seeds that never get to 99 % of the best of all-reduce;
      NaN if only the end is known.
    steps: to that target, over those of all-reduce, mean of the seeds that
      reach it; infinite if none does, NaN if they are not known.
    seeds: how many.
  """

  table: str
  task: str
  model: str
  optimizer: str
  workers: int
  strategy: str
  score: str
  value: float
  dense: float
  missed: float
  steps: float
  seeds: int

  @property
  def place(self) -> str:
    """'cnn on fashion_mnist with sgd, P = 8'."""
    return place(self)


def kept(path: pathlib.Path = PATH) -> list[Known]:
  """What the package knows of strategies beside all-reduce.

  Args:
    path: a CSV file whose columns are the fields of Known.
  """
  types = Known.__annotations__
  with path.open(newline='') as lines:
    return [
      Known(**{name: types[name](row[name]) for name in Known._fields})
      for row in csv.DictReader(lines)
    ]


def of_workdirs(folders: Sequence[str | pathlib.Path]) -> Iterator[Known]:
  """Of each comparison, its runs beside its all-reduce.

  Raises:
    UserError: a folder is no workdir with a finished run.
  """
  for folder in map(pathlib.Path, folders):
    summary, runs = reader.summary(folder), reader.read(folder)
    found = answer.of(summary, runs)
    if found is None or found.reference.score is None:
      continue
    # Also of variants that diverged before their first record.
    configs = merged_by_name({**summary['config'], 'seeds': ()})
    if configs[found.dense]['strategy']['name'] != DENSE:
      continue
    for row in found.rows:
      if row.name != found.dense:
        yield _of_row(str(folder), row, found, configs[row.name])


def _of_row(
  table: str, row: target_costs.Row, found: answer.Answer, config: Mapping
) -> Known:
  """A row of an answer. A target of the config tells nothing of another one."""
  missed = steps = math.nan
  if not found.given and found.reference.arrives:
    missed = [*row.each.values()].count(target_costs.NEVER) / len(row.each)
    if missed in (0, 1):  # Of some seeds alone the steps are not kept.
      steps = row.steps / found.reference.steps
  return Known(
    table,
    *identity(config),
    config['strategy']['name'],
    found.metric,
    row.score.mean if row.score else math.nan,
    found.reference.score.mean if found.reference.score else math.nan,
    missed,
    steps,
    len(row.each),
  )


class Identity(NamedTuple):
  """What is trained: names of task, model, optimizer, and how many workers."""

  task: str
  model: str
  optimizer: str
  workers: int


def identity(config: Mapping[str, Any]) -> Identity:
  """What a config trains; the model is '' if its task has no such argument."""
  task, model = config['task'], config['task'].get('model', '')
  return Identity(
    task['name'],
    model if isinstance(model, str) else '',
    config.get('optimizer', {}).get('name', ''),
    config['workers'],
  )


def training(what: Known | Identity) -> str:
  """'cnn on fashion_mnist with sgd'."""
  model = f'{what.model} on ' if what.model else ''
  optimizer = f' with {what.optimizer}' if what.optimizer else ''
  return f'{model}{what.task}{optimizer}'


def place(what: Known | Identity) -> str:
  """'cnn on fashion_mnist with sgd, P = 8'."""
  return f'{training(what)}, P = {what.workers}'


def family(model: str) -> str:
  """What kind of network a model is; '' if its name does not tell."""
  return next(
    (
      name
      for name, stems in FAMILIES.items()
      if any(model.startswith(stem) for stem in stems)
    ),
    '',
  )


def distance(known: Known, config: Mapping[str, Any]) -> tuple[int, float]:
  """How far a run is from a config: (model and task, doublings of P).

  The first is 0 for the same task, model and optimizer, 1 with another
  optimizer, 2 for the same task, 3 for the same family of networks, else
  UNLIKE.
  """
  task, model, optimizer, workers = identity(config)
  if known.task == task:
    level = 2 if known.model != model else int(known.optimizer != optimizer)
  else:
    alike = family(model) and family(model) == family(known.model)
    level = 3 if alike else UNLIKE
  return level, abs(math.log2(known.workers / workers))


def is_near(known: Known, config: Mapping[str, Any]) -> bool:
  """Whether task, model and optimizer have the same names, and P is alike.

  Their sizes, and the length of the training, may differ.
  """
  level, doublings = distance(known, config)
  return level == 0 and doublings <= 1


def nearest(known: Iterable[Known], config: Mapping[str, Any]) -> list[Known]:
  """The runs that are least far from a config, all at the same distance."""
  by: dict[tuple[int, float], list[Known]] = {}
  for run in known:
    by.setdefault(distance(run, config), []).append(run)
  return by[min(by)] if by else []
