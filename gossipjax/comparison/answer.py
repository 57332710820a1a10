"""The answer of a comparison: which run reaches the target first.

The target is `config.target`, else `config.target_share` of the best score of
all-reduce. What a run costs to reach it is interpolated between two
evaluations, see results/crossing.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gossipjax.comparison import certainty, over_seeds, scores
from gossipjax.comparison.target_costs import (
  NEVER,
  Row,
  curves,
  row,
  scored,
)
from gossipjax.comparison.targets import pick, share, share_of, target_of
from gossipjax.results import total_time
from gossipjax.results.more_steps import OWN
from gossipjax.results.reader import Run
from gossipjax.tasks.task import is_higher

DENSE = 'all_reduce'


class Answer(NamedTuple):
  """Which run reaches a target first.

  Attributes:
    metric: column of the score, such as test_accuracy.
    higher: whether large values of it are good.
    target: the value of the score to reach.
    easier: a target that is a hundredth worse.
    share: the fraction of all-reduce's best score that is the target; 0 if the
      config gives a value.
    link: name of the modelled link.
    clock: how seconds are known, see `total_time.kind`.
    sharing: the fewest and the most workers' devices that share a device here;
      measured computing is divided by their number.
    rows: by seconds; last, by score, those that miss the target.
    dense: name of the variant with all-reduce, else of the first one.
    command: the one that repeats the comparison; '' if it is not known.
    seeds: of the comparison, or of all runs of several comparisons, of which a
      row may have only some.
    steps: of each training, unless a row has its own.
    own_seeds: whether a variant sets a seed, beside which config.seeds fails.
    measured_s: seconds of computing, of the run that has the fewest.
  """

  metric: str
  higher: bool
  target: float
  easier: float
  share: float
  link: str
  clock: str
  sharing: tuple[int, int]
  rows: tuple[Row, ...]
  dense: str
  command: str
  seeds: tuple[int, ...]
  steps: int
  own_seeds: bool
  measured_s: float

  @property
  def first(self) -> Row | None:
    """The fastest row; None if no row reaches the target."""
    return self.rows[0] if self.rows[0].arrives else None

  @property
  def reference(self) -> Row:
    """The row of all-reduce, or of the first variant."""
    return next(row for row in self.rows if row.name == self.dense)

  @property
  def undecided(self) -> tuple[Row, ...]:
    """Rows that the seeds cannot distinguish from the first, or whose costs are
    upper bounds only. With one seed, also rows that narrowly miss the target.
    """
    if self.first is None:
      return ()
    return tuple(
      row for row in self.rows[1:] if not certainty.slower(row, self.first)
    )

  @property
  def within_noise(self) -> tuple[Row, ...]:
    """Rows that the seeds distinguish from the first, but that differ from it
    by no more than the noise of measured seconds."""
    first = self.first
    if first is None or self.clock == total_time.VIRTUAL:
      return ()
    unsure = self.undecided
    decided = [row for row in self.rows[1:] if row not in unsure]
    return tuple(row for row in decided if certainty.within_noise(row, first))

  @property
  def missed(self) -> tuple[Row, ...]:
    """Rows of which not all seeds reach the target."""
    return tuple(row for row in self.rows if not row.arrives)

  @property
  def improving(self) -> tuple[Row, ...]:
    """Rows of `missed` that still improved when training ended, except those
    that never exchanged: with more steps they are another method."""
    return tuple(row for row in self.missed if row.improving and not row.period)

  @property
  def may_overtake(self) -> tuple[Row, ...]:
    """Improving rows that have spent less time than the first needs in all."""
    limit = self.first.total.mean if self.first else NEVER
    return tuple(row for row in self.improving if row.spent_s < limit)


def of(summary: Mapping[str, Any], runs: Sequence[Run]) -> Answer | None:
  """The answer of a comparison; None if no run that did not diverge has a
  held-out score.

  Args:
    summary: of the comparison; only the runs in it, which are finished, count.
    runs: of the comparison, those that have records.
  """
  entries = {run['name']: run for run in summary['runs']}
  finished = [run for run in runs if run.name in entries]
  config = summary['config']
  ends = finished[0].config if finished else config  # Variants share these.
  score, given = scores.goal({**config, 'cluster': ends.get('cluster')})
  groups = _groups(entries, finished)
  trained = [run for seeds in groups.values() for run in seeds.values() if run]
  if (metric := _metric(score, trained)) is None:
    return None
  higher = is_higher(metric, summary.get('higher_is_better', ()))
  names = [n for n, seeds in groups.items() if curves(seeds.values(), metric)]
  dense = next((n for n in names if _strategy(groups[n]) == DENSE), names[0])
  best = pick(higher)
  bests = [best(curve) for curve in curves(groups[dense].values(), metric)]
  part = share_of(config)
  target = given or target_of(bests, higher, part)
  rows = [
    row(name, seeds, metric, target, higher) for name, seeds in groups.items()
  ]
  stands_for = [total_time.sharing(run) for run in finished]
  return Answer(
    metric,
    higher,
    target,
    share(target, higher),
    0.0 if given else part,
    total_time.link_title(config),
    total_time.kind(finished[0]),
    (min(stands_for), max(stands_for)),
    tuple(sorted(rows, key=lambda row: _order(row, higher))),
    dense,
    summary.get('command', ''),
    tuple(config.get('seeds') or sorted({r.config['seed'] for r in finished})),
    config['steps'],
    any('seed' in x for x in (config.get('variants') or {}).values()),
    min(float(run.records['train_s'][-1]) for run in trained),
  )


def _order(row: Row, higher: bool) -> tuple[float, float]:
  if row.score is None:
    return NEVER, NEVER
  return row.total.mean, -row.score.mean if higher else row.score.mean


def _metric(score: str, runs: Sequence[Run]) -> str | None:
  """Chooses the score to judge by from those that runs have."""
  columns = scores.columns(run.records for run in runs)
  known = [name for name in columns if any(scored(run, name) for run in runs)]
  return scores.chosen(score, known)


def _groups(
  entries: Mapping[str, Any], runs: Sequence[Run]
) -> dict[str, dict[int | None, Run | None]]:
  """The runs of each variant by seed; None if it diverged."""
  by_name = {run.name: run for run in runs}
  groups: dict[str, dict[int | None, Run | None]] = {}
  for name, entry in entries.items():
    run, diverged = by_name.get(name), entry.get('diverged')
    if run is None and not diverged:
      continue  # Its folder was deleted just now.
    variant = run.variant if run else over_seeds.variant(entry)
    seeds = groups.setdefault(variant, {})
    seed = run.config['seed'] if run else entry.get('seed')
    seeds[seed] = None if diverged else run
  return groups


def _strategy(seeds: Mapping[int | None, Run | None]) -> str:
  """The strategy's name; of a comparison from Python the label that it has."""
  run = next(filter(None, seeds.values()))
  own = run.config['optimizer']['name'] == OWN
  return run.variant if own else run.config['strategy']['name']
