"""known_runs.csv: what the runs kept in the repository say of strategies.

`python -m experiments.framework.results_page` writes it, so that an installed
package has it too. It has a row for each strategy beside all-reduce. Whether a
run gets to a target, and when, is there for several targets.
"""

import csv
import pathlib

from gossipjax.advice.known_runs import Known
from gossipjax.comparison.targets import SHARE
from gossipjax.errors import UserError

PATH = pathlib.Path(__file__).with_name('known_runs.csv')
SHARES = (SHARE, 0.97, 0.95, 0.9)  # Of all-reduce's best score: the targets.
FIELDS = ('missed', 'relative_steps')  # Of Known, with a column for each.


def kept(path: pathlib.Path = PATH, share: float = SHARE) -> list[Known]:
  """What the package knows of strategies beside all-reduce.

  Args:
    path: a CSV file whose columns are those of `columns`.
    share: of all-reduce's best score that is the target.

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
  """That holds a field of Known, for a target."""
  return f'{field}_{share:g}' if field in FIELDS else field


def columns() -> list[str]:
  """All columns, in their order."""
  names = [column(f, share) for f in Known._fields for share in SHARES]
  return list(dict.fromkeys(names))
