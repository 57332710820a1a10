"""What a workload is: a task, a network, a schedule and a gate."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from experiments.framework.single_run import Result
from experiments.framework.sizes import Size


class Workload(NamedTuple):
  """What is trained.

  Attributes:
    title: description of the workload in words.
    task: `config.task`, as arguments of `defaults.task`.
    optimizer: `config.optimizer` but for rate and schedule.
    sizes: by scale.
    metric: field of a record that is the score and is compared with the gate.
    gate: value that all-reduce has to reach: a minimum; a maximum for a loss.
    gate_source: source of the gate at the scale cpu.
    warmup: share of the steps during which the learning rate rises.
  """

  title: str
  task: Mapping[str, Any]
  optimizer: Mapping[str, Any]
  sizes: Mapping[str, Size]
  metric: str
  gate: float
  gate_source: str
  warmup: float = 0.05

  def score(self, run: Result) -> float | None:
    """Returns a run's final score, higher is better; None if it diverged."""
    end = final_record(run).get(self.metric)
    return -end if end is not None and self.is_loss else end

  @property
  def is_loss(self) -> bool:
    """Whether less is better."""
    return self.metric.endswith('loss')

  def gate_at(self, scale: str) -> float:
    """The gate of that scale."""
    own = self.sizes[scale].gate
    return self.gate if own is None else own

  def gate_source_at(self, scale: str) -> str:
    """Where the gate of that scale is from."""
    return self.gate_source if self.sizes[scale].gate is None else 'a goal'

  def passes(self, value: float, scale: str = 'cpu') -> bool:
    """Whether a value of the metric is as good as the gate."""
    gate = self.gate_at(scale)
    return value <= gate if self.is_loss else value >= gate


def final_record(run: Result) -> dict[str, Any]:
  """Returns the last record; {} if the run diverged, even at its last step."""
  if run.get('diverged') or run['records'][-1].get('test_loss') is None:
    return {}
  return run['records'][-1]
