"""The result of a comparison from Python."""

import pathlib
import shutil
from typing import TYPE_CHECKING, Any

from gossipjax.comparison import answer, answer_text, markup, table
from gossipjax.errors import UserError, nearest, require
from gossipjax.results import reader
from gossipjax.tasks.task import Task
from gossipjax.training import model_file

if TYPE_CHECKING:
  import pandas as pd


class Result:
  """The result of a comparison.

  Attributes:
    summary: as in summary.json.
    folder: of its files; a temporary one is deleted with this object.
  """

  def __init__(
    self,
    summary: dict[str, Any],
    folder: pathlib.Path,
    task: Task,
    kept: Any = None,
  ):
    self.summary, self.folder = summary, folder
    self._task, self._kept = task, kept

  @property
  def frame(self) -> 'pd.DataFrame':
    """All records, see `gossipjax.results.analysis`.

    Raises:
      UserError: the extra `report` is not installed.
    """
    require('report')
    from gossipjax.results import analysis

    return analysis.load(self.folder)

  @property
  def answer(self) -> str:
    """Which run is first at the target, and how surely; '' without scores."""
    found = answer.of(self.summary, reader.read(self.folder))
    return '\n'.join(answer_text.paragraphs(found)) if found else ''

  @property
  def table(self) -> str:
    """The table of the comparison, in Markdown."""
    return markup.of_rows(table.rows(self.summary), ('run',))

  def trained(self, run: str) -> Any:
    """The model that a run has trained, see `gossipjax.trained`.

    Args:
      run: its name in the table.

    Raises:
      UserError: there is no such run, or it diverged.
    """
    names = [one['name'] for one in self.summary['runs']]
    if run not in names:
      raise UserError(f'There is no run {run!r}{nearest(run, names)}')
    return model_file.trained(self.folder / run, self._task)

  def save(self, folder: str | pathlib.Path) -> None:
    """Copies all files, those that `python -m gossipjax run` writes.

    Raises:
      UserError: the folder exists, or cannot be made.
    """
    folder = pathlib.Path(folder).expanduser()
    if folder.exists():
      raise UserError(f'{folder} exists; name another folder.')
    try:
      shutil.copytree(self.folder, folder)
    except OSError as error:
      raise UserError(f'{folder} cannot be written: {error}.') from error
