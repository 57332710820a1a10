"""What a workload is: a task, a network, a schedule and a gate."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from experiments.framework.single_run import Result
from experiments.framework.sizes import Size


class Workload(NamedTuple):
  """What is trained.

  Attributes:
    title: in words.
    task: `config.task`, as arguments of `defaults.task`.
    optimizer: `config.optimizer` but for rate and schedule.
    sizes: by scale.
    metric: of the gate, a field of a record.
    gate: what all-reduce reaches at least; at most, if it is a loss.
    anchor: where the gate at the scale cpu is taken from.
    warmup: share of the steps in which the rate rises.
  """

  title: str
  task: Mapping[str, Any]
  optimizer: Mapping[str, Any]
  sizes: Mapping[str, Size]
  metric: str
  gate: float
  anchor: str
  warmup: float = 0.05

  def score(self, run: Result) -> float | None:
    """What a run ended with, the more the better; None if it diverged."""
    end = last(run).get(self.metric)
    return -end if end is not None and self.is_loss else end

  @property
  def is_loss(self) -> bool:
    """Whether less is better."""
    return self.metric.endswith('loss')

  def gate_at(self, scale: str) -> float:
    """The gate of that scale."""
    own = self.sizes[scale].gate
    return self.gate if own is None else own

  def passes(self, value: float, scale: str = 'cpu') -> bool:
    """Whether a value of the metric is as good as the gate."""
    gate = self.gate_at(scale)
    return value <= gate if self.is_loss else value >= gate


def last(run: Result) -> dict[str, Any]:
  """The last record, {} of a run that diverged, if only with its last step."""
  if run.get('diverged') or run['records'][-1].get('test_loss') is None:
    return {}
  return run['records'][-1]
