"""The cost of a variant to a target: seconds, bytes and steps, over seeds."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gossipjax.comparison import never_exchanged, unlearned
from gossipjax.comparison.targets import pick, share
from gossipjax.results import crossing, total_time
from gossipjax.results.reader import Run
from gossipjax.results.standard_error import deviation

NEVER = float('inf')


class Spread(NamedTuple):
  """Mean and sample standard deviation over seeds; sd is None for one seed."""

  mean: float
  sd: float | None


class Row(NamedTuple):
  """The cost of a variant to reach the target.

  Attributes:
    name: of the variant.
    each: seconds by seed; NEVER for a seed that misses the target.
    total: mean and deviation of `each`; NEVER if one of them is.
    easier: seconds by seed to the target that is a hundredth easier.
    computing_s, communication_s: mean parts of the seconds; NaN if measured
      together.
    bytes_sent: mean bytes, sent by the worker that sends most.
    steps: mean steps.
    spent_s: mean seconds until the last record; NEVER if no seed has a score.
    score: mean and deviation of the best score of each seed; None if no seed
      has one, see `scored`.
    diverged: number of seeds that diverged.
    improving: whether every seed has its best score at its last evaluation; not
      if a seed diverged or lost a worker, as it could not go on.
    at_once: whether all seeds reach the target, one of them by its first
      evaluation: the costs are upper bounds.
    planned: steps of its trainings; a variant may have steps of its own.
    stopped: the fewest steps after which a seed ended, since a round waited for
      a worker in vain; None if none did.
    period: of a variant that sent nothing, see `never_exchanged.period`.
    unlearned: see `unlearned.why`.
  """

  name: str
  each: Mapping[int | None, float]
  total: Spread
  easier: Mapping[int | None, float]
  computing_s: float
  communication_s: float
  bytes_sent: float
  steps: float
  spent_s: float
  score: Spread | None
  diverged: int
  improving: bool
  at_once: bool
  planned: int
  stopped: int | None
  period: int | None
  unlearned: str

  @property
  def arrives(self) -> bool:
    """Whether all seeds reach the target."""
    return self.total.mean < NEVER

  @property
  def ending(self) -> str:
    """A comma, and how it ended before its last step; '' if it did not."""
    if self.stopped is None:
      return ''
    after = f'after {self.stopped} of {self.planned} steps'
    return f', which stopped {after}, as a worker was lost'


def common(row: Row, other: Row) -> set[int | None]:
  """The seeds that both have."""
  return row.each.keys() & other.each.keys()


def means(of: str, *rows: Row) -> list[float]:
  """Mean seconds of rows over their common seeds, over all if none is common:
  some seeds may be missing while a comparison runs.

  Args:
    of: 'each' or 'easier'.
  """
  shared = set.intersection(*({*row.each} for row in rows))
  costs = (getattr(row, of) for row in rows)
  return [
    statistics.fmean(cost[seed] for seed in shared or cost) for cost in costs
  ]


def scored(run: Run, metric: str) -> bool:
  """Whether a training has a score. If it ended in virtual time before its
  first step, it has that of the initial model, which does not count."""
  return run.records['step'][-1] > 0 and run.numbers(metric).size > 0


def curves(seeds: Iterable[Run | None], metric: str) -> list[np.ndarray]:
  """The scores of each seed that has some, [evaluations] each."""
  return [run.numbers(metric) for run in seeds if run and scored(run, metric)]


def row(
  name: str,
  by_seed: Mapping[int | None, Run | None],
  metric: str,
  target: float,
  higher: bool,
) -> Row:
  seeds = by_seed.values()
  costs = [_costs(run, metric, target, higher) for run in seeds]
  easier = [_costs(run, metric, share(target, higher), higher) for run in seeds]
  total, computing, communication, sent, steps = np.array(costs).T
  scores = curves(seeds, metric)
  best = [pick(higher)(curve) for curve in scores]
  diverged = sum(run is None for run in seeds)
  stopped = _stopped(filter(None, seeds))
  return Row(
    name,
    dict(zip(by_seed, total.tolist(), strict=True)),
    _spread(total.tolist()),
    {seed: cost[0] for seed, cost in zip(by_seed, easier, strict=True)},
    float(computing.mean()),
    float(communication.mean()),
    float(sent.mean()),
    float(steps.mean()),
    _spent_s(run for run in seeds if run and scored(run, metric)),
    _spread([float(score) for score in best]) if best else None,
    diverged,
    bool(scores)
    and not diverged
    and stopped is None
    and all(_improving(curve, higher) for curve in scores),
    NEVER not in total
    and any(crossing.place(s.tolist(), target, higher) == 0 for s in scores),
    max((run.config['steps'] for run in seeds if run), default=0),
    stopped,
    never_exchanged.period(filter(None, seeds)),
    unlearned.why(seeds, metric, higher),
  )


def _stopped(runs: Iterable[Run]) -> int | None:
  lost = (run for run in runs if run.numbers('lost_worker').size)
  return min((int(run.records['step'][-1]) for run in lost), default=None)


def _improving(curve: np.ndarray, higher: bool) -> bool:
  """Whether the last score is better than all before; False for only one."""
  *before, last = curve if higher else -curve
  return bool(before) and last > max(before)


def _costs(
  run: Run | None, metric: str, target: float, higher: bool
) -> tuple[float, ...]:
  """Seconds, computing, communication, bytes and steps to the target."""
  if run is None or not scored(run, metric):
    return (NEVER,) * 5
  known = ~np.isnan(run.records[metric])
  place = crossing.place(run.records[metric][known].tolist(), target, higher)
  if place is None:
    return (NEVER,) * 5
  others = (run.records[name] for name in ('bytes_sent', 'step'))
  costs = [*total_time.columns(run).values(), *others]
  return tuple(crossing.at(column[known], place) for column in costs)


def _spent_s(runs: Iterable[Run]) -> float:
  seconds = [float(total_time.columns(run)['total_s'][-1]) for run in runs]
  return statistics.fmean(seconds) if seconds else NEVER


def _spread(values: Sequence[float]) -> Spread:
  if NEVER in values:
    return Spread(NEVER, None)
  sd = deviation(values) if len(values) > 1 else None
  return Spread(statistics.fmean(values), sd)
