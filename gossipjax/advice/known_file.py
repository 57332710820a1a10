"""Reads known_runs.csv, the results of the runs kept in the repository.

`python -m experiments.framework.results_page` writes the file into the package,
so that an installed package has it too. Each row compares a strategy with
all-reduce. It tells whether and when a run reaches each of several targets.
"""

import csv
import pathlib

from gossipjax.advice.known_runs import Known
from gossipjax.comparison.targets import SHARE
from gossipjax.errors import UserError

PATH = pathlib.Path(__file__).with_name('known_runs.csv')
SHARES = (SHARE, 0.97, 0.95, 0.9)  # Targets, as shares of all-reduce's best.
FIELDS = ('missed', 'relative_steps')  # With a column per target.


def kept(path: pathlib.Path = PATH, share: float = SHARE) -> list[Known]:
  """Reads the kept runs of strategies other than all-reduce.

  Args:
    path: a CSV file whose columns are those of `columns`.
    share: the fraction of all-reduce's best score that is the target.

  Raises:
    UserError: the share is none of SHARES.
  """
  if share not in SHARES:
    raise UserError(
      f'config.target_share={share:g}: advise knows what runs needed for '
      f'{", ".join(map(str, SHARES))} of the best score of all-reduce; '
      'choose one of these.'
    )
  types = Known.__annotations__
  with path.open(newline='') as lines:
    return [
      Known(**{name: types[name](row[column(name, share)]) for name in types})
      for row in csv.DictReader(lines)
    ]


def column(field: str, share: float) -> str:
  """The name of the column that holds a field of Known for a target."""
  return f'{field}_{share:g}' if field in FIELDS else field


def columns() -> list[str]:
  """The names of all columns, in order."""
  names = [column(f, share) for f in Known._fields for share in SHARES]
  return list(dict.fromkeys(names))
