"""How well strategies learned, by the tables under experiments/results/."""

import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

RESULTS = pathlib.Path(__file__).parents[2] / 'experiments' / 'results'
DENSE = 'all_reduce'
_NAMES = ('run', 'variant', 'strategy')  # What a column of names is called.
_POINT = 0.01  # Less than that is noise of a seed, see the README.


class Accuracy(NamedTuple):
  """Held-out accuracies of a strategy and of all-reduce, in (0, 1)."""

  table: str
  strategy: str
  accuracy: float
  dense: float

  @property
  def suffers(self) -> bool:
    """Whether it is worse by more than noise."""
    return self.accuracy < self.dense - _POINT

  def __str__(self) -> str:
    return (
      f'{self.table}: {100 * self.accuracy:.1f} % held out, '
      f'{DENSE} {100 * self.dense:.1f} %'
    )


def accuracies(results: pathlib.Path = RESULTS) -> list[Accuracy]:
  """All that the tables tell of strategies beside all-reduce.

  Args:
    results: a folder with a folder per experiment, each with tables (Markdown
      or CSV) of which some have a column of names and one of accuracies.
  """
  found = []
  for path in sorted([*results.glob('*/*.md'), *results.glob('*/*.csv')]):
    for frame in _tables(path):
      found += _of(frame, path.parent.name)
  return list(dict.fromkeys(found))


def _tables(path: pathlib.Path) -> Iterator[pd.DataFrame]:
  if path.suffix == '.csv':
    yield pd.read_csv(path)
    return
  for block in re.findall(r'(?:^\|.*\n)+', path.read_text() + '\n', re.M):
    head, _, *lines = (
      [cell.strip() for cell in line.strip('|').split('|')]
      for line in block.splitlines()
    )
    yield pd.DataFrame(lines, columns=head)


def _of(frame: pd.DataFrame, table: str) -> Iterator[Accuracy]:
  names = next((c for c in frame if c in _NAMES), None)
  scores = next(
    (c for c in frame if re.search(r'(held.out|test).accuracy', str(c))), None
  )
  if names is None or scores is None:
    return
  values = frame[scores].astype(str)
  percent = values.str.contains('%')
  number = pd.to_numeric(values.str.extract(r'([\d.]+)')[0])
  # Several rows of one strategy, of seeds perhaps, are one by their mean.
  mean = number.where(~percent, number / 100).groupby(frame[names]).mean()
  if DENSE in mean:
    for name, accuracy in mean.drop(DENSE).items():
      yield Accuracy(table, str(name), float(accuracy), float(mean[DENSE]))
