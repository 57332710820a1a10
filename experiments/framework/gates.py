"""Gates: whether all-reduce reaches the score that a workload requires."""

import statistics
from typing import NamedTuple

from experiments.framework import best_rate, study, workloads
from experiments.framework.result_store import ResultStore
from gossipjax.config import resolve

WORKERS = 8


class Gate(NamedTuple):
  """What all-reduce reaches on a workload.

  Attributes:
    workload: its name.
    reached: mean score of the seeds; None if it is not known yet.
    met: whether that score passes the gate.
    scale: the kind of machine, which may have its own gate.
  """

  workload: str
  reached: float | None
  met: bool
  scale: str = 'cpu'

  def __str__(self) -> str:
    workload = workloads.WORKLOADS[self.workload]
    if self.reached is None:
      return f'{self.workload}: not known yet'
    sign = '<=' if workload.is_loss else '>='
    return (
      f'{self.workload}: {workload.metric} {self.reached:.4g} '
      f'({"met" if self.met else "NOT met"}: {sign} '
      f'{workload.gate_at(self.scale):g})'
    )


def of_all_reduce(name: str, scale: str) -> study.Study:
  """The study of all-reduce with 8 workers at its best rate."""
  dense = resolve.strategy_config('all_reduce')
  return best_rate.tune_strategy(name, WORKERS, scale, dense)


def gate(name: str, kept: ResultStore, scale: str = 'cpu') -> Gate:
  """Checks a workload's gate with the runs that are kept so far."""
  found = study.replay(of_all_reduce(name, scale), kept).found
  if found is None:
    return Gate(name, None, False, scale)
  workload = workloads.WORKLOADS[name]
  ends = [
    workloads.final_record(run).get(workload.metric) for run in found.runs
  ]
  if not ends or None in ends:
    return Gate(name, None, False, scale)
  mean = statistics.fmean(ends)
  return Gate(name, mean, workload.passes(mean, scale), scale)
