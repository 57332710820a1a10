"""What one slow or one lost worker of 16 costs each method.

    python -m experiments.stragglers

Worker 0 sleeps Uniform(0, 300 ms) after every gradient, as in Jin et al., 2016
(arXiv:1611.04581); or it fails for good.
"""

from functools import partial
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from experiments.framework import (
  best_rate,
  claim,
  figures,
  intervals,
  notes,
  seed_statistics,
  study,
  training_claim,
  virtual_time,
)
from experiments.framework.result_store import ResultStore
from experiments.framework.seed_statistics import ERROR, known
from experiments.framework.single_run import Result
from experiments.framework.virtual_time import TARGET

CLAIM = claim.Claim(
  'stragglers',
  'What one slow worker costs synchronous and asynchronous methods',
  'One slow or lost worker slows the steps of methods that wait for all '
  'workers, and not of methods that wait for none',
  'curves without a table (arXiv:1611.04581)',
)
P, STEP_S, RATE = 16, 0.1, 0.05
CLUSTER = {
  'step_s': STEP_S,
  'spread': 0.1,
  'shards': 4,
  'timeout_s': 60.0,
  **virtual_time.link(0.14 * STEP_S),
}
SCENARIOS = {
  'baseline': {},
  'slow': {'stragglers': (0,), 'sleep_s': 0.3},
  'lost': {'failures': ((0, 1.0),)},
}
BACKUP = 'backup, first 15'
ASYNCHRONOUS, SYNCHRONOUS = virtual_time.ASYNCHRONOUS, virtual_time.SYNCHRONOUS
METHODS = {
  'all-reduce': ('all_reduce', SYNCHRONOUS, {}),
  'pull-gossip': ('pull_gossip', ASYNCHRONOUS, {}),
  BACKUP: ('all_reduce', {**SYNCHRONOUS, 'first': P - 1}, {}),
  'server': ('parameter_server', ASYNCHRONOUS, {}),
  'EASGD': ('elastic', ASYNCHRONOUS, {}),
  'AD-PSGD': ('pairwise_gossip', ASYNCHRONOUS, {}),
  'top-k': ('topk', SYNCHRONOUS, {}),
  'gTop-k': ('gtopk', SYNCHRONOUS, {'density': 0.01}),
  'local SGD, 8': ('local_sgd', SYNCHRONOUS, {}),
  'async local SGD, 8': ('local_sgd', ASYNCHRONOUS, {}),
  'push-gossip': ('push_gossip', ASYNCHRONOUS, {}),
  'GoSGD': ('push_sum', ASYNCHRONOUS, {'topology': 'complete'}),
  'adaptive gossip': (
    'adaptive_gossip',
    ASYNCHRONOUS,
    {'topology': 'complete'},
  ),
}
# These sum all workers' updates.
SUMS = ('server', 'async local SGD, 8')
# A time, then its ratios: with a slow and with a lost worker, over without.
KEYS = [
  (what, f'{what}, slow worker / none', f'{what}, lost worker / none')
  for what in ('seconds per step', f'seconds to {TARGET} held out')
]
(_, SLOW, LOST), (_, SLOW_TARGET, _) = KEYS
BARS = 'worker 0 is slow', 'worker 0 is lost'
STOPPED = 'seconds at which a lost worker stops it'


class ScenarioRuns(NamedTuple):
  """Runs of a method in every scenario, at the rate that is best when baseline.

  Attributes:
    baseline: its tuning, without slow or lost workers.
    runs: by scenario, one for each seed.
  """

  baseline: best_rate.Tuned
  runs: dict[str, list[Result]]


def studies(scale: str) -> training_claim.Studies:
  """Studies by method; those of the claim come first."""
  names = list(METHODS)[: 2 if scale == 'quick' else None]
  return {('fashion', name): partial(_study, name, scale) for name in names}


def _study(name: str, scale: str) -> study.Study:
  strategy, mode, args = METHODS[name]
  rate = RATE / P if name in SUMS else RATE
  config = lambda scenario: virtual_time.config(
    strategy, P, scale, {**CLUSTER, **mode, **SCENARIOS[scenario]}, rate, **args
  )
  baseline = yield from virtual_time.tuned(config('baseline'), scale)
  runs = {'baseline': baseline.runs}
  for scenario in ('slow', 'lost') if baseline.runs else ():
    runs[scenario] = yield [
      study.RunRequest(
        virtual_time.WORKLOAD,
        best_rate.seeded(config(scenario), baseline.rate, seed),
      )
      for seed in range(len(baseline.runs))
    ]
  return ScenarioRuns(baseline, runs)


def find(
  found: training_claim.Results, coverage: claim.Rows, kept: ResultStore
) -> claim.Finding:
  """Builds a row for each method."""
  del kept
  rows = [
    _row(cell[1], found[cell]) for cell in found if found[cell].baseline.rate
  ]
  return claim.Finding(
    verdict(rows, coverage),
    rows,
    NOTES,
    'CNN (220,234 parameters) on Fashion-MNIST, 16 workers in virtual time',
    f'to {TARGET} held out, at most {virtual_time.EPOCHS} epochs of gradients',
    *seed_statistics.counts(rows),
    tables={'coverage': coverage},
  )


STEADY = 1.1  # A sixteenth of the mean delay of 0.15 s is 9 % of a step.
NOTES = notes.of(
  'stragglers',
  target=TARGET,
  steady=STEADY,
)


def _row(name: str, scenario_runs: ScenarioRuns) -> dict[str, Any]:
  runs = scenario_runs.runs
  stops = [
    r['records'][-1]['virtual_s']
    for r in runs['lost']
    if r['records'] and r['records'][-1].get('lost_worker') is not None
  ]
  row = {'method': name, 'seeds': len(runs['baseline'])}
  row |= virtual_time.best_rate_columns(scenario_runs.baseline)
  for measure, (column, *keys) in zip(
    (_step_s, virtual_time.to_target), KEYS, strict=True
  ):
    baseline, *others = ([*map(measure, seeds)] for seeds in runs.values())
    row[column] = claim.mean(baseline)
    for key, values in zip(keys, others, strict=True):
      row[key], row[f'{key}{ERROR}'] = seed_statistics.ratio(values, baseline)
  if stops:
    row[LOST] = row[f'{LOST}{ERROR}'] = None
  return row | {STOPPED: claim.mean(stops) if stops else None}


def _step_s(run: Result) -> float | None:
  """Virtual seconds of a step; None if the run diverged."""
  last = {} if run['diverged'] else run['records'][-1]
  return claim.ratio(last.get('virtual_s'), last.get('step'))


def _is_steady(row: dict[str, Any]) -> bool | None:
  """Whether steps are slowed less than STEADY; None if seeds cannot tell."""
  error = row[f'{SLOW}{ERROR}']
  return intervals.is_below(STEADY, row[SLOW], error, row['seeds'])


def verdict(rows: claim.Rows, coverage: claim.Rows) -> claim.Verdict:
  """Judges each method that does not wait.

  The claim holds if a slow worker slows the method's steps at most STEADY times
  and those of every waiting method more, as far as seeds can tell, and if a
  lost worker stops every waiting method, but not this one.
  """
  of_mode = lambda mode: [r for r in rows if METHODS[r['method']][1] is mode]
  waits, free = of_mode(SYNCHRONOUS), of_mode(ASYNCHRONOUS)
  stop, lost = ([r for r in of if r[STOPPED]] for of in (waits, free))
  modes = [mode for _, mode, *_ in METHODS.values()]

  def case(row):
    steady, *slowed = map(_is_steady, (row, *waits))
    if None in (steady, *slowed) or len(waits) < modes.count(SYNCHRONOUS):
      return None
    return steady and not any(slowed) and row not in lost and stop == waits

  of = lambda key: (claim.span(waits, key), claim.span(free, key))
  (slow, steady), (later, as_soon) = of(SLOW), of(SLOW_TARGET)
  arrive = sum(known(row[SLOW_TARGET]) for row in free)
  stopped = f'{len(stop)} of {len(waits)}', f'{len(lost)} of {len(free)}'
  missing = modes.count(ASYNCHRONOUS) - len(free)
  return claim.make_verdict(
    [*map(case, free)] + [claim.UNTRAINED] * missing,
    f'a slow worker makes a step {slow} times as long for methods that wait '
    f'for all, {steady} for nobody; a lost one stops {" and ".join(stopped)}',
    f'One worker of {P} that sleeps up to 300 ms makes a step {slow} times as '
    f'long for methods that wait for all, {steady} for those that wait for '
    f'nobody; to {TARGET} held out they take {later} and {as_soon} times as '
    f'long ({arrive} of the {len(free)} that wait for nobody get there). A '
    f'lost worker stops {stopped[0]} methods that wait for all, {stopped[1]} '
    'that wait for nobody.',
    training_claim.doubt(coverage),
  )


def figure(rows: claim.Rows, coverage: claim.Rows) -> Figure:
  """Bars: time per step and to the target, with a slow or a lost worker."""
  del coverage
  found = Figure(figsize=(9, 0.9 + 0.32 * len(rows)), layout='constrained')
  panels = found.subplots(1, 2, sharey=True)
  lost = lambda row, key: row[STOPPED] and 'lost' in key
  text = lambda row, key: 'stops' if lost(row, key) else 'not reached'
  for axes, (_, *keys) in zip(panels, KEYS, strict=True):
    labels = dict(zip(keys, BARS, strict=True))
    figures.bars(axes, rows, 'method', labels, text)
  panels[0].set_xlabel('times as long per step as without')
  panels[1].set_xlabel(f'times as long to {TARGET} held out as without')
  panels[0].invert_yaxis()
  figures.legend(found, panels[0])
  return found


if __name__ == '__main__':
  training_claim.run(CLAIM, studies, find, figure)
