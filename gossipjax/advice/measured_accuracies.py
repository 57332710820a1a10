"""Accuracies of strategies in the comparisons kept in the repository.

accuracies.csv is written by `python -m experiments.framework.results_page`.
"""

import csv
import pathlib
from typing import NamedTuple

PATH = pathlib.Path(__file__).with_name('accuracies.csv')
DENSE = 'all_reduce'
_POINT = 0.01  # A difference below that is noise of a seed, see the README.


class Accuracy(NamedTuple):
  """Held-out accuracies of a run and of all-reduce beside it, in (0, 1).

  Attributes:
    table: the comparison, a folder of experiments/results.
    strategy: name of the run, mostly that of its strategy.
    accuracy: of the run.
    dense: of all-reduce.
  """

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


def accuracies(path: pathlib.Path = PATH) -> list[Accuracy]:
  """What was measured of strategies beside all-reduce.

  Args:
    path: a CSV file whose columns are the fields of Accuracy.
  """
  with path.open(newline='') as lines:
    return [
      Accuracy(
        row['table'],
        row['strategy'],
        float(row['accuracy']),
        float(row['dense']),
      )
      for row in csv.DictReader(lines)
    ]
