"""A held-out score at which training in virtual time ends."""

from typing import NamedTuple

from gossipjax.errors import UserError, nearest
from gossipjax.tasks import checks
from gossipjax.tasks.task import Task, is_higher
from gossipjax.training.record import Record, held_out
from gossipjax.training.run import Run


class Goal(NamedTuple):
  """The held-out score that a run has to reach.

  Attributes:
    score: its name.
    value: what the score has to be at least, or at most if small is good.
    higher: whether large values are good.
  """

  score: str
  value: float
  higher: bool

  def reached(self, record: Record) -> bool:
    """Whether a record reaches the goal; False if it has no such score."""
    score = held_out(record).get(self.score)
    if score is None:
      return False
    return score >= self.value if self.higher else score <= self.value


def of_run(run: Run) -> Goal | None:
  """Returns the goal of `config.cluster` or None; its task has been checked.

  Raises:
    UserError: the task has no such score.
  """
  cluster = run.cluster
  name = cluster.target_score or ('accuracy' if cluster.target_accuracy else '')
  if not name:
    return None
  _check(name, run.task, 'score' if cluster.target_score else 'accuracy')
  higher = is_higher(name, run.task.higher_is_better)
  value = cluster.target if cluster.target_score else cluster.target_accuracy
  return Goal(name, value, higher)


def _check(name: str, task: Task, key: str) -> None:
  if name not in (known := checks.scores_of(task)):
    raise UserError(
      f'cluster.target_{key} needs a task with a score named {name}'
      f'{nearest(name, known)}'
    )
