"""The scores that tables, figures and the report show, with their labels."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gossipjax.comparison.units import deviation, loss
from gossipjax.errors import UserError
from gossipjax.results import total_time
from gossipjax.tasks import checks
from gossipjax.tasks.task import Task, is_higher

LOSSES = {'train_loss': 'training loss', 'test_loss': 'held-out loss'}
ACCURACY = {'test_accuracy': 'held-out accuracy'}


def columns(frames: Iterable[Mapping[str, Any]]) -> dict[str, str]:
  """Columns of records with a held-out score, and their labels.

  Accuracy and loss come first; these two, if there is no score yet.

  Args:
    frames: arrays by column, of each run.
  """
  frames = list(frames)
  known = [
    name
    for name in dict.fromkeys(name for frame in frames for name in frame)
    if name.startswith('test_')
    and any(_has_numbers(frame.get(name)) for frame in frames)
  ]
  first = {**ACCURACY, 'test_loss': LOSSES['test_loss']}
  if not known:
    return first
  return {k: v for k, v in first.items() if k in known} | {
    k: label(k) for k in known if k not in first
  }


def goal(config: Mapping[str, Any]) -> tuple[str, float]:
  """Score and target at which runs end, else the config's; '' and 0 if none."""
  ends = _named(config.get('cluster') or {})
  return ends if any(ends) and not contradiction(config) else _named(config)


def contradiction(config: Mapping[str, Any]) -> str:
  """'loss 0.4 and accuracy 0.9' if runs end at the first but are judged by the
  second; '' if the two agree."""
  ends, (score, target) = _named(config.get('cluster') or {}), _named(config)
  judged = score or ends[0], target or ends[1]
  if not any(ends) or judged == ends:
    return ''
  return f'{ends[0]} {ends[1]:g} and {judged[0]} {judged[1]:g}'


def check_share(column: str, target: float) -> None:
  """Raises a UserError for a target of an accuracy that is above 1."""
  if column in ACCURACY and target > 1:
    share = f', such as {target / 100:g}' * (2 < target <= 100)
    raise UserError(
      f'The target is an accuracy of {target:g}; an accuracy is a share, from '
      f'0 to 1{share}.'
    )


def _named(part: Mapping[str, Any]) -> tuple[str, float]:
  """Score and target of a config or of its cluster; '' and 0 if none."""
  if accuracy := part.get('target_accuracy'):
    return 'accuracy', float(accuracy)
  return part.get('target_score') or '', float(part.get('target') or 0)


def chosen(score: str, known: Sequence[str]) -> str | None:
  """The column that runs are judged by: that of the score, else the first.

  The first is an accuracy, else a loss, else the first by name.

  Args:
    score: the score of `goal`; '' if there is none.
    known: the existing columns, in the order of `columns`.
  """
  column = f'test_{score}'
  return column if column in known else next(iter(known), None)


def of_task(config: Mapping[str, Any], task: Task) -> tuple[str, bool]:
  """The column that runs of a task are judged by, before any run has a record.

  Args:
    config: of the comparison, which may name the score, see `goal`.
    task: the task that defines the scores.

  Returns:
    The column, and whether large values of it are good.
  """
  numbers = {f'test_{name}': np.zeros(1) for name in checks.scores_of(task)}
  known = list(columns([numbers]))
  column = chosen(goal(config)[0], known) or known[0]
  return column, is_higher(column, task.higher_is_better)


def _has_numbers(values: Any) -> bool:
  return values is not None and not np.isnan(values).all()


def label(column: str) -> str:
  """'held-out f1' for 'test_f1'."""
  return f'held-out {column.removeprefix("test_")}'


def validation(column: str) -> str:
  """'validation f1' for 'test_f1', if it is the score of validation data."""
  return f'validation {column.removeprefix("test_")}'


def seconds(kind: str, link: str) -> str:
  """Returns the label of an axis of total seconds.

  Args:
    kind: how they are known, see `total_time.kind`.
    link: the title of the modelled link.
  """
  names = {
    total_time.VIRTUAL: 'virtual seconds',
    total_time.MEASURED: 'total seconds (measured)',
  }
  return names.get(kind, f'total seconds on {link} (model)')


def cells(
  run: dict[str, Any], runs: Iterable[dict[str, Any]], higher: Collection[str]
) -> dict[str, str]:
  """A row's held-out scores, by heading.

  Args:
    run: its entry in summary.json.
    runs: the entries of all runs of the comparison.
    higher: names of scores of which large values are good.
  """
  names = dict.fromkeys(
    name
    for other in runs
    for name, value in other.items()
    if name.startswith('test_') and value is not None
  )
  first = [k for k in ('test_accuracy', 'test_loss') if k in names]
  return {
    _heading(name, higher): as_text(
      name, run.get(name), run.get('sd', {}).get(name)
    )
    for name in [*first, *(k for k in names if k not in first)]
  } or {'held-out accuracy': ''}


def _heading(column: str, higher: Collection[str]) -> str:
  if column in ('test_accuracy', 'test_loss'):
    return label(column)
  good = 'higher' if is_higher(column, higher) else 'lower'
  return f'{label(column)} ({good} is better)'


def as_text(column: str, value: float | None, sd: float | None = None) -> str:
  """A score as text, '92.59 %' or '0.3689', with ± its deviation."""
  if value is None:
    return ''
  share = column in ACCURACY
  scale, form = (100, '.2f') if share else (1, '.4g')
  text = f'{scale * value:{form}}'
  if column in LOSSES:
    text = loss(value) or text
  if sd is not None:
    text += f' ± {deviation(scale * sd)}'
  return f'{text} %' if share else text
