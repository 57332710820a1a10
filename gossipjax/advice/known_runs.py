"""Known runs, see known_file and known_workdirs, and how near they are."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gossipjax.comparison import answer
from gossipjax.config import defaults, given_arguments

DENSE = answer.DENSE
UNLIKE = 5  # Distance of runs that share neither task nor kind of model.
IID = 'iid'  # The split that texts do not mention.
FAMILIES = {
  'convolutional network': ('cnn', 'resnet', 'vgg', 'shallow'),
  'dense network': ('mlp', 'linear'),
  'recurrent network': ('lstm',),
  'transformer': ('transformer',),
}


class Known(NamedTuple):
  """A run, compared with all-reduce.

  Attributes:
    table: the source of the run: a file of kept runs, or a workdir.
    task, model: names; model is '' if the task has no such argument.
    optimizer: its name.
    workers: how many.
    split: how examples are shared out: 'iid', 'dirichlet alpha=0.1'.
    strategy: its name, whatever the variant is called.
    score: name of the column, such as test_accuracy.
    value: score of the run, the last or the best one.
    dense: score of all-reduce.
    missed: fraction of the seeds that miss the target, `config.target_share` of
      the best score of all-reduce; NaN if it is unknown.
    relative_steps: steps to that target over those of all-reduce, mean over the
      seeds that reach it; infinite if none does, NaN if it is unknown.
    seeds: how many.
    arguments: of the strategy, see `given_arguments.as_text`.
  """

  table: str
  task: str
  model: str
  optimizer: str
  workers: int
  split: str
  strategy: str
  score: str
  value: float
  dense: float
  missed: float
  relative_steps: float
  seeds: int
  arguments: str = ''

  @property
  def place(self) -> str:
    """'cnn on fashion_mnist with sgd, P = 8'."""
    return place(self)


def of_strategy(
  known: Iterable[Known], strategy: Mapping[str, Any]
) -> list[Known]:
  """Returns the runs of a strategy with these arguments: with others, such as a
  longer period, it may miss a target that it reached.

  Args:
    known: runs of any strategy.
    strategy: `config.strategy`.
  """
  key = strategy['name'], given_arguments.as_text(strategy)
  return [run for run in known if (run.strategy, run.arguments) == key]


class Identity(NamedTuple):
  """What is trained: names of task, model and optimizer, how many workers, and
  how examples are shared out among them."""

  task: str
  model: str
  optimizer: str
  workers: int
  split: str


def identity(config: Mapping[str, Any]) -> Identity:
  """What a config trains; the model is '' if its task has no such argument."""
  task, model = config['task'], config['task'].get('model', '')
  return Identity(
    task['name'],
    model if isinstance(model, str) else '',
    config.get('optimizer', {}).get('name', ''),
    config['workers'],
    _split(config.get('split') or {}),
  )


def _split(split: Mapping[str, Any]) -> str:
  """The name of `config.split`, and how much the workers differ."""
  filled = {**defaults.split(), **split}
  extent = {'dirichlet': 'alpha', 'label': 'shards'}.get(name := filled['name'])
  return f'{name} {extent}={filled[extent]:g}' if extent else name


def training(what: Known | Identity) -> str:
  """'cnn on fashion_mnist with sgd', and the split unless it is iid."""
  model = f'{what.model} on ' if what.model else ''
  optimizer = f' with {what.optimizer}' if what.optimizer else ''
  split = f', {what.split}' if what.split != IID else ''
  return f'{model}{what.task}{optimizer}{split}'


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
  """Returns how far a run is from a config: (level, doublings of P).

  The level is 0 for the same task, model, split and optimizer, 1 with another
  optimizer, 2 with another split, 3 with another model, 4 with another task but
  the same family of networks, else UNLIKE.
  """
  task, model, optimizer, workers, split = identity(config)
  alike = family(model) and family(model) == family(known.model)
  differs = (
    (known.task != task and not alike, UNLIKE),
    (known.task != task, 4),
    (known.model != model, 3),
    (known.split != split, 2),
    (known.optimizer != optimizer, 1),
  )
  level = next((level for other, level in differs if other), 0)
  return level, abs(math.log2(known.workers / workers))


def is_near(known: Known, config: Mapping[str, Any]) -> bool:
  """Whether task, model, split and optimizer agree, P within a factor of 2.

  The size of the model and the length of the training may differ.
  """
  level, doublings = distance(known, config)
  return level == 0 and doublings <= 1


def nearest(known: Iterable[Known], config: Mapping[str, Any]) -> list[Known]:
  """Returns the runs nearest to a config, all at the same distance."""
  by_distance: dict[tuple[int, float], list[Known]] = {}
  for run in known:
    by_distance.setdefault(distance(run, config), []).append(run)
  return by_distance[min(by_distance)] if by_distance else []
