"""How often, and by how much, does a strategy beat all-reduce to a target?

    python -m experiments.speedups

Covers all strategies of `experiments.fronts`, on every workload and every link
of the link model. Seconds to the target are the steps to 99 % of all-reduce's
final score, times the measured seconds of computing and coding, plus the
modelled seconds of the link.

Agarwal et al., MLSys 2022, found 6 of more than 200 set-ups faster.
arXiv:2103.00543
"""

import statistics
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from experiments import fronts
from experiments.framework import (
  best_rate,
  claim,
  figures,
  notes,
  seed_statistics,
  step_times,
  training_claim,
  workloads,
)
from experiments.framework.result_store import ResultStore
from experiments.framework.seed_statistics import ERROR, INSIDE, is_faster
from experiments.framework.single_run import Result
from gossipjax.config import resolve
from gossipjax.network import PRESETS
from gossipjax.results.crossing import crossing

CLAIM = claim.Claim(
  'speedups',
  'How often compression or gossip pays',
  'In most combinations of strategy, workload and link no time is saved '
  'against all-reduce',
  '6 of more than 200 set-ups were faster (Agarwal 2022, arXiv:2103.00543)',
)
TARGET = 0.99  # Of all-reduce's final score.
LINKS = tuple(PRESETS)
FASTER = seed_statistics.FASTER
SECONDS, SPEED = 'seconds to the target', "all-reduce's seconds over these"
SPEED_ERROR = f'{SPEED}{ERROR}'
REACHING = 'those that reach the target'


def studies(scale: str) -> training_claim.Studies:
  """Studies of `fronts` but CHEAP; also more seeds on its small workloads."""
  found = fronts.studies(scale)
  found = {c: study for c, study in found.items() if c[1] != fronts.CHEAP}
  for name in [n for n in fronts.SMALL if (n, fronts.BOTH) in found]:
    names = [c[1] for c in found if c[0] == name and c[1] != fronts.BOTH]
    methods = {s: partial(fronts.method, name, s, scale) for s in names}
    reaching = partial(_reaching, name)
    further = partial(best_rate.further_seeds, methods, reaching)
    found[name, REACHING] = further
  return found


def _reaching(name: str, first: dict[str, best_rate.Tuned]) -> list[str]:
  """Strategies that reach the target with any seed, however late."""
  goal = _target(name, first['all_reduce'].runs)
  return [
    strategy
    for strategy, one in first.items()
    if any(_seconds_to(name, run, goal, LINKS[0], 1.0) for run in one.runs)
  ]


def find(
  found: training_claim.Results, coverage: claim.Rows, kept: ResultStore
) -> claim.Finding:
  """Builds a row per strategy, workload and link, with all kept seeds."""
  rows, scale = [], coverage[0]['scale']
  for name in dict.fromkeys(cell[0] for cell in found):
    tuned = {
      c[1]: best_rate.with_all_seeds(partial(fronts.method, *c, scale), t, kept)
      for c, t in found.items()
      if c[0] == name and c[1] not in (fronts.BOTH, REACHING)
    }
    # Step seconds are measured here, so rows wait until all is trained.
    if training_claim.is_complete(coverage, name):
      rows += _rows(name, tuned, kept, scale)
  return claim.Finding(
    verdict(rows, coverage),
    rows,
    NOTES,
    *training_claim.evidence(rows, coverage),
    tables={'coverage': coverage},
  )


def _rows(
  name: str, tuned: dict[str, best_rate.Tuned], kept: ResultStore, scale: str
) -> claim.Rows:
  base = tuned['all_reduce']
  goal = _target(name, base.runs)
  computing = {s: _computing_s(name, s, kept, scale) for s in tuned}
  rows = []
  for link in LINKS:
    seconds_of = lambda s, run: _seconds_to(name, run, goal, link, computing[s])
    seconds = {s: [seconds_of(s, run) for run in tuned[s].runs] for s in tuned}
    dense = seconds.pop('all_reduce')
    sure = base.inside and None not in dense
    rows += [
      {'workload': name, 'link': link, 'strategy': s}
      | _speed(dense, mine, sure)
      | {INSIDE: sure and tuned[s].inside}
      for s, mine in seconds.items()
    ]
  return rows


def _speed(
  dense: list[float | None], mine: list[float | None], sure: bool
) -> dict[str, Any]:
  """Columns of a strategy, paired with all-reduce by seed: None where a seed of
  either misses the target. The error is also None unless `sure`."""
  n = min(len(dense), len(mine))
  speed, error = seed_statistics.ratio(dense[:n], mine[:n])
  return {
    SECONDS: None if speed is None else claim.mean(mine[:n]),
    SPEED: speed,
    SPEED_ERROR: error if sure else None,
    'seeds': n or 1,
  }


def _target(name: str, runs: list[Result]) -> float:
  workload = workloads.WORKLOADS[name]
  end = statistics.fmean(
    workloads.final_record(run)[workload.metric] for run in runs
  )
  return end / TARGET if workload.is_loss else end * TARGET


def _computing_s(
  name: str, strategy: str, kept: ResultStore, scale: str
) -> float:
  """Seconds that one worker takes for a gradient and the strategy's coding."""
  arguments = fronts.ARGUMENTS.get(strategy, {})
  config = resolve.strategy_config(strategy, **arguments)
  return step_times.own_s(name, fronts.WORKERS, config, kept, scale)


def _seconds_to(
  name: str, run: Result, goal: float, link: str, computing_s: float
) -> float | None:
  """Seconds until the metric reaches the goal, interpolated linearly between
  evaluations; None if it never does."""
  workload = workloads.WORKLOADS[name]
  if run['diverged'] or not run['records']:
    return None
  last = max(run['records'][-1]['most_bytes_sent'], 1)
  seconds = lambda record: (
    record['step'] * computing_s
    + record['most_bytes_sent'] / last * run['comm_s'][link]
  )
  scored = [r for r in run['records'] if r.get(workload.metric) is not None]
  curve = [(seconds(record), record[workload.metric]) for record in scored]
  return crossing(curve, goal, higher=not workload.is_loss)


def verdict(rows: claim.Rows, coverage: claim.Rows) -> claim.Verdict:
  """Judges per workload whether most are no faster; tells the best per link."""
  texts, counts = [], []
  for link in figures.distinct(rows, 'link'):
    group = [row for row in rows if row['link'] == link]
    fast = sorted(_faster(group), key=lambda row: -row[SPEED])
    best = most = ''
    for top in fast[:1]:
      best = f', at most {top[SPEED]:.1f} times ({top["strategy"]})'
      most = f', to {top[SPEED]:.2g} x'
    texts.append(f'{link}: {len(fast)} of {len(group)} faster{best}')
    counts.append(f'{link} {len(fast)}{most}')
  sure = sum(is_faster(row, SPEED) is True for row in rows)
  num = lambda key, value: [row[key] for row in rows].count(value)
  doubt = '' if rows else 'not all strategies of a workload are trained'
  return claim.make_verdict(
    [_is_rare(rows, name) for name in figures.distinct(rows, 'workload')]
    + training_claim.not_begun(rows, coverage),
    f'{len(_faster(rows))} of {len(rows)} at least {FASTER} x as fast, {sure} '
    f'surely ({"; ".join(counts)}); {num(SECONDS, None)} miss the target',
    f'{"; ".join(texts) or "No strategy is trained yet"}. Of all '
    f'faster ones, {sure} are beyond the error over seeds. In '
    f'{num(INSIDE, False)} pairs the best rate is at the edge of those tried.',
    training_claim.doubt(coverage) or doubt,
  )


def _is_rare(rows: claim.Rows, workload: str) -> bool | None:
  """Whether less than half of the strategies are faster; None if the undecided
  ones could change the answer."""
  fast = [is_faster(row, SPEED) for row in rows if row['workload'] == workload]
  least, half = fast.count(True), len(fast) / 2
  most = len(fast) - fast.count(False)
  return None if least < half <= most else most < half


def _faster(rows: claim.Rows) -> claim.Rows:
  return [row for row in rows if (row[SPEED] or 0) >= FASTER]


NOTES = notes.of(
  'speedups',
  target=100 * TARGET,
  faster=FASTER,
)


def figure(rows: claim.Rows, coverage: claim.Rows) -> Figure:
  """Share of strategies that are at least so many times as fast, per link."""
  del coverage
  found = Figure(figsize=(7, 4), layout='constrained')
  axes = found.subplots()
  for link in figures.distinct(rows, 'link'):
    group = [row for row in rows if row['link'] == link]
    speeds = sorted((row[SPEED] or 0 for row in group), reverse=True)
    share = [100 * (i + 1) / len(group) for i in range(len(group))]
    axes.step(speeds, share, where='post', label=link)
  axes.axvline(1, color='0.5', linewidth=0.8)
  x = 'times as fast to the target as all-reduce, at least'
  axes.set(xscale='log', xlabel=x, ylabel='% of strategies and workloads')
  axes.legend(frameon=False, title='link')
  return found


if __name__ == '__main__':
  training_claim.run(CLAIM, studies, find, figure)
