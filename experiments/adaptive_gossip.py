"""Does gossip that talks only after a change save 92 % at the same accuracy?

    python -m experiments.adaptive_gossip

Claim: 92 % less traffic than gossip at every step, accuracy kept, 52 % less
time (hence 56 % of the baseline's time is communication). Controls that send
about as much: a fixed period, and a trigger that draws at random.

Ho, Wu, Liu, 2018.
"""

import functools

import numpy as np
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from experiments.framework import (
  claim,
  figures,
  kept_runs,
  seed_statistics,
  silent_steps,
  workloads,
)
from experiments.framework.kept_runs import KeptRuns
from experiments.framework.seed_statistics import ERROR, sent
from gossipjax.config import resolve

CLAIM = claim.Claim(
  'adaptive_gossip',
  'Gossip that adapts when it talks',
  'Gossip that talks only after a change is as good as at every step, and '
  'better than a fixed period at the same bytes',
  '92 % less traffic, 52 % less time, accuracy kept (Ho 2018); nothing on a '
  'fixed period',
)
UNDECIDED = (
  'accuracies are those of 0.2 epochs with 12 to 16 exchanges, and the '
  'controls do not send equal bytes'
)
SAVED, WITHIN, TIME_SAVED = 0.92, 0.5, 0.52  # As claimed; points of accuracy.
COMM_SHARE = TIME_SAVED / SAVED  # Of the baseline's time.
SCALES = (6.0, 9.0, 13.0, 19.0, 28.0)  # Of the drift, until the traffic is met.
WORKERS, SEEDS = (8, 16), 3
TRAFFIC, TIME = 'traffic saved %', 'time saved %, modelled'
ADAPTIVE = functools.partial(resolve.strategy_config, 'adaptive_gossip')
CONTROLS = {
  'fixed-12': {'name': 'fixed', 'period': 12},
  'fixed-13': {'name': 'fixed', 'period': 13},
  'random': {'name': 'random', 'rate': 1 - SAVED},
}


def _drift(scale: float) -> dict:
  return {'name': 'relative_drift', 'scale': scale}


def scale_for(task: str, scope: str, found: KeptRuns, quick: bool) -> float:
  """The least scale of the drift that saves enough, on validation data."""
  config = workloads.on_link(task, WORKERS[0], quick)
  config.split.holdout = 'validation'
  config.optimizer.learning_rate = workloads.RATES[1]
  config.strategy = resolve.strategy_config('gossip')
  always = sent(found.run(config))
  for scale in SCALES[:1] if quick else SCALES:
    config.strategy = ADAPTIVE(scope=scope, trigger=_drift(scale))
    if sent(found.run(config)) <= (1 - SAVED) * always:
      break
  return scale


def methods(task: str, runs: KeptRuns, quick: bool) -> dict[str, ConfigDict]:
  """Gossip, adaptive at the claimed traffic, and the controls."""
  found = {'gossip': resolve.strategy_config('gossip')}
  for scope in ['all'] if quick else ['local', 'all']:
    scale = scale_for(task, scope, runs, quick)
    found[f'adaptive-{scope}'] = ADAPTIVE(scope=scope, trigger=_drift(scale))
  for name, trigger in ({} if quick else CONTROLS).items():
    found[name] = ADAPTIVE(scope='all', trigger=trigger)
  return found


def cells(task: str, quick: bool, found: KeptRuns) -> dict[tuple, ConfigDict]:
  """By task, workers, method and seed."""
  at = lambda workers: workloads.on_link(task, workers, quick)
  ways = methods(task, found, quick)
  mine = workloads.cells(found, quick, at, ways, WORKERS, SEEDS)
  return {(task, *key): run for key, run in mine.items()}


def measure(quick: bool, found: KeptRuns) -> claim.Finding:
  """One seed of each task, then the others; quick, two methods on 8 workers."""
  wanted, tasks = {}, workloads.TWO[: 1 if quick else None]
  for task in tasks:
    if wanted and not found.budget.allows_as_much_again():
      break
    mine = cells(task, quick, found)
    found.collect({key: mine[key] for key in mine if key[-1] == 0})
    wanted |= mine
  runs = found.collect(wanted)
  rows = [
    _beside(runs, row)
    for row in seed_statistics.rows(runs, ('task', 'workers', 'method'))
  ]
  triggers = ['fixed'] if quick else silent_steps.TRIGGERS
  return claim.Finding(
    verdict(rows),
    rows,
    seed_statistics.extent(runs, len(mine) * len(tasks))
    + NOTES
    + workloads.NOTE,
    *workloads.extent(tasks, quick),
    seeds=1 if quick else SEEDS,
    tables={'silent_steps': [*map(silent_steps.measure, triggers)]},
  )


def _beside(runs: seed_statistics.Runs, row: dict) -> dict:
  """The row, and how it compares with gossip and with the controls."""
  place, name = (row['task'], row['workers']), row['method']
  of = lambda name: [r for key, r in runs.items() if key[:3] == (*place, name)]
  mean = lambda name, number: np.mean([*map(number, of(name))] or [np.nan])
  saved = lambda number: 100 * (1 - mean(name, number) / mean('gossip', number))
  config = of(name)[0]['config']['strategy']
  found = row | {
    'drift scale': config.get('trigger', {}).get('scale'),
    TRAFFIC: saved(sent),
    TIME: COMM_SHARE * saved(seed_statistics.path_s),
  }
  for other in ('gossip', 'fixed-12', 'random'):
    found |= seed_statistics.against(
      runs, (*place, name), (*place, other), other
    )
  return found


def verdict(rows: claim.Rows, **tables: claim.Rows) -> claim.Verdict:
  """The claim for each scope, then the question that the paper left open."""
  mine = [row for row in rows if row['method'].startswith('adaptive')]
  met = [
    row[TRAFFIC] >= 100 * SAVED - 0.05 and row['points over gossip'] >= -WITHIN
    for row in mine
  ]
  ours = (
    f'{claim.span(mine, TRAFFIC, ".0f")} % of the traffic and '
    f'{claim.span(mine, TIME, ".0f")} % of the modelled time saved, at '
    f'{claim.span(mine, "points over gossip", ".1f")} points over gossip at '
    'every step'
  )
  said = [
    _scope(name, [row for row in mine if row['method'] == name])
    for name in figures.values(mine, 'method')
  ]
  return claim.Verdict(sum(met), len(met), ours, ' '.join(said), UNDECIDED)


def _scope(name: str, rows: claim.Rows) -> str:
  over, span = 'points over fixed-12', lambda key: claim.span(rows, key)
  sure = [row for row in rows if abs(row[over]) > 2 * row[f'{over}{ERROR}']]
  better = sum(row[over] > 0 for row in sure)
  return (
    f'{name} saves {span(TRAFFIC)} % of the traffic (claimed: '
    f'{100 * SAVED:.0f}) at {span("points over gossip")} points over gossip '
    f'(allowed: {-WITHIN}), and {span(TIME)} % of the time where gossip '
    f'communicates {100 * COMM_SHARE:.0f} % of it (claimed: '
    f'{100 * TIME_SAVED:.0f}). Over a fixed period of 12 it is {span(over)} '
    f'points: beyond two standard errors better in {better} and worse in '
    f'{len(sure) - better} of {len(rows)} cells; over a random trigger it is '
    f'{span("points over random")} points.'
  )


NOTES = """
`traffic saved`: of the bytes of all workers, against gossip at every step.
`time saved`: modelled, workers in lock-step so that the one who talks longest
sets the pace, without latency, at the bandwidth where gossip communicates the
stated share of its time. The drift's scale is the least of 6, 9, 13, 19, 28 to
save 92 % with 8 workers (rate 0.03, validation data, seed 0). adaptive-local:
each worker decides, which saves logical bytes only, since in one lock-step
program a silent worker's message still moves. adaptive-all: a flag agrees
whether anyone wants to talk; if nobody does, nothing is sent. Points are paired
by seed; rates were chosen with 8 workers. All on a ring. The table of silent
steps holds the wall time of a step in which nobody talks over that of one in
which all do, under scope=all, with 5,000,000 parameters on 8 emulated devices.
"""


def figure(rows: claim.Rows, **tables: claim.Rows) -> Figure:
  """Held-out accuracy against traffic saved, a panel per task."""
  found = Figure(figsize=(11, 4), layout='constrained')
  panels = found.subplots(1, len(figures.values(rows, 'task')), squeeze=False)
  figures.accuracies(panels[0], rows, 'task', TRAFFIC, ('method', 'workers'))
  figures.legend(found, panels[0, 0])
  return found


if __name__ == '__main__':
  kept_runs.run(CLAIM, measure, figure, devices=max(WORKERS))
