"""Does gossip that talks only after a change save 92 % for nothing?

    python -m experiments.adaptive_gossip

Claim: 92 % less traffic than gossip at every step, accuracy kept, 52 % less
time (hence 56 % of the baseline's time is communication). Controls at the same
bytes: a fixed period, and a trigger that draws lots.

Ho, Wu, Liu, 2018.
"""

import numpy as np
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from experiments.framework import (
  claim,
  kept_runs,
  seed_statistics,
  silent_steps,
  workloads,
)
from experiments.framework.kept_runs import Evidence
from gossipjax.config import resolve

SAVED, WITHIN, TIME_SAVED = 0.92, 0.5, 0.52  # As claimed; points of accuracy.
COMM_SHARE = TIME_SAVED / SAVED  # Of the baseline's time.
SCALES = (6.0, 9.0, 13.0, 19.0, 28.0)  # Of the drift, until the traffic is met.
WORKERS, SEEDS = (8, 16), 3
CONTROLS = {
  'fixed-12': {'name': 'fixed', 'period': 12},
  'fixed-13': {'name': 'fixed', 'period': 13},
  'random': {'name': 'random', 'rate': 1 - SAVED},
}


def config_of(task: str, workers: int, quick: bool) -> ConfigDict:
  """As all claims', on a link where bytes alone count."""
  return workloads.with_link(workloads.config(task, workers, quick))


def sent(run: dict) -> float:
  """Bytes a step of all workers, NaN if it diverged."""
  end = seed_statistics.last(run)
  return sum(end['bytes_sent']) / end['step'] if end else np.nan


def _comm_s(run: dict) -> float:
  return seed_statistics.last(run).get('comm_s', {}).get('custom', np.nan)


def _drift(scale: float) -> dict:
  return {'name': 'relative_drift', 'scale': scale}


def _adaptive(scope: str, trigger: dict) -> ConfigDict:
  return resolve.strategy_config(
    'adaptive_gossip', scope=scope, trigger=trigger
  )


def scale_for(task: str, scope: str, found: Evidence, quick: bool) -> float:
  """The least scale of the drift that saves enough, on validation data."""
  config = config_of(task, WORKERS[0], quick)
  config.task.holdout = 'validation'
  config.optimizer.learning_rate = workloads.RATES[1]
  config.strategy = resolve.strategy_config('gossip')
  always = sent(found.one(config))
  for scale in SCALES[:1] if quick else SCALES:
    config.strategy = _adaptive(scope, _drift(scale))
    if sent(found.one(config)) <= (1 - SAVED) * always:
      break
  return scale


def methods(task: str, found: Evidence, quick: bool) -> dict[str, ConfigDict]:
  """Gossip, adaptive at the claimed traffic, and the controls."""
  adaptive = {
    f'adaptive-{scope}': _adaptive(
      scope, _drift(scale_for(task, scope, found, quick))
    )
    for scope in (['all'] if quick else ['local', 'all'])
  }
  controls = {} if quick else CONTROLS
  return (
    {'gossip': resolve.strategy_config('gossip')}
    | adaptive
    | {name: _adaptive('all', trigger) for name, trigger in controls.items()}
  )


def cells(task: str, quick: bool, found: Evidence) -> dict[tuple, ConfigDict]:
  """By task, P, method and seed."""
  strategies = methods(task, found, quick)
  here = lambda workers: workloads.compared(
    config_of(task, workers, quick), strategies
  )
  rates = found.rates(here(WORKERS[0]), workloads.RATES[: 2 if quick else None])
  return {
    (task, workers, name, seed): run
    for workers in WORKERS[: 1 if quick else None]
    for name, seed, run in workloads.runs(
      here(workers), rates, 1 if quick else SEEDS
    )
  }


def measure(quick: bool, found: Evidence) -> claim.Finding:
  """One seed of each task, then the others; quick, two methods on 8 workers."""
  wanted, tasks = {}, workloads.TWO[: 1 if quick else None]
  for task in tasks:
    if wanted and not found.again():
      break
    mine = cells(task, quick, found)
    found.collect({key: mine[key] for key in mine if key[-1] == 0})
    wanted |= mine
  runs = found.collect(wanted)
  rows = [
    _beside(runs, row)
    for row in seed_statistics.rows(runs, ('task', 'P', 'method'))
  ]
  silent = [
    silent_steps.measure(trigger)
    for trigger in (['fixed'] if quick else silent_steps.TRIGGERS)
  ]
  return claim.Finding(
    rows,
    _figure(rows),
    verdict(rows),
    seed_statistics.extent(runs, len(mine) * len(tasks))
    + NOTES
    + _skipping(silent)
    + workloads.NOTE,
  )


def _beside(runs: seed_statistics.Runs, row: dict) -> dict:
  """The row, and how it compares with gossip and with a period of 12."""
  cell = row['task'], row['P'], row['method']
  of = lambda name, number: np.mean(
    [number(run) for key, run in runs.items() if key[:3] == (*cell[:2], name)]
    or [np.nan]
  )
  ratio = lambda number: of(cell[2], number) / of('gossip', number)
  seconds = ratio(_comm_s)
  gain, error = seed_statistics.difference(runs, cell, (*cell[:2], 'gossip'))
  over, its_error = seed_statistics.difference(
    runs, cell, (*cell[:2], 'fixed-12')
  )
  lots, lots_error = seed_statistics.difference(
    runs, cell, (*cell[:2], 'random')
  )
  strategy = next(run for key, run in runs.items() if key[:3] == cell)[
    'config'
  ]['strategy']
  scale = strategy.get('trigger', {}).get('scale')
  return row | {
    'scale': scale,
    'traffic saved %': 100 * (1 - ratio(sent)),
    'time saved %': 100 * COMM_SHARE * (1 - seconds),
    'points over gossip': gain,
    'error': error,
    'points over fixed-12': over,
    'its error': its_error,
    'points over random': lots,
    'error of that': lots_error,
  }


def verdict(rows: list[dict]) -> str:
  """The claim for each scope, then the question that the paper left open."""
  mine = [row for row in rows if row['method'].startswith('adaptive')]
  met = [
    row['traffic saved %'] >= 100 * SAVED - 0.05
    and row['points over gossip'] >= -WITHIN
    for row in mine
  ]
  said = []
  for name in dict.fromkeys(row['method'] for row in mine):
    these = [row for row in mine if row['method'] == name]
    span = lambda key, these=these: (
      f'{min(row[key] for row in these):.2f} to '
      f'{max(row[key] for row in these):.2f}'
    )
    better, worse = (
      sum(
        sign * row['points over fixed-12'] > 2 * row['its error']
        for row in these
      )
      for sign in (1, -1)
    )
    said.append(
      f'{name} saves {span("traffic saved %")} % of the traffic (claimed: '
      f'{100 * SAVED:.0f}) at {span("points over gossip")} points over '
      f'gossip (allowed: {-WITHIN}), and {span("time saved %")} % of the '
      f'time where gossip communicates {100 * COMM_SHARE:.0f} % of it '
      f'(claimed: {100 * TIME_SAVED:.0f}). Over a fixed period of 12 it is '
      f'{span("points over fixed-12")} points: beyond two standard errors '
      f'better in {better} and worse in {worse} of {len(these)} cells; over '
      f'random times it is {span("points over random")}.'
    )
  return f'{claim.word(sum(met), len(met))}: ' + ' '.join(said)


NOTES = """
`traffic saved`: of the bytes of all workers, against gossip at every step.
`time saved`: modelled, workers in lock-step so that the one who talks longest
sets the pace, without latency, at the bandwidth where gossip communicates the
stated share of its time. The drift's scale is the least of 6, 9, 13, 19, 28 to
save 92 % at P = 8 (rate 0.03, validation data, seed 0). adaptive-local: each
worker decides, which saves logical bytes only, since in one lock-step program
a silent worker's message still moves. adaptive-all: a flag agrees whether
anyone wants, and silence is real. Points are paired by seed, errors are
standard errors; rates were chosen at P = 8. All on a ring.
"""


def _skipping(found: list[dict]) -> str:
  each = '; '.join(
    f'{row["trigger"]} {row["silent / talking"]:.2f} '
    f'({row["bytes silent"]:,} bytes against {row["bytes talking"]:,}; the '
    'exchange is '
    f'{"in a branch" if row["in a branch"] else "in no branch"} of the '
    'compiled program)'
    for row in found
  )
  return (
    f'\nscope=all really skips: wall time of a silent step over that of '
    f'a talking one, {silent_steps.SIZE:,} parameters, {silent_steps.WORKERS} '
    f'emulated devices: {each}.\n'
  )


def _figure(rows: list[dict]) -> Figure:
  figure = Figure(figsize=(11, 4), layout='constrained')
  tasks = list(dict.fromkeys(row['task'] for row in rows))
  panels = figure.subplots(1, len(tasks), squeeze=False)[0]
  names = list(dict.fromkeys(row['method'] for row in rows))
  for axes, task in zip(panels, tasks, strict=True):
    for row in rows:
      if row['task'] == task:
        axes.errorbar(
          row['traffic saved %'],
          float(row['accuracy %']),
          float(row['sd'] or 0),
          color=f'C{names.index(row["method"])}',
          marker='o' if row['P'] == WORKERS[0] else 's',
          label=f'{row["method"]}, P = {row["P"]}',
        )
    axes.set(
      title=task, xlabel='traffic saved, %', ylabel='held-out accuracy, %'
    )
  figure.legend(
    *panels[0].get_legend_handles_labels(),
    frameon=False,
    loc='outside right upper',
  )
  return figure


if __name__ == '__main__':
  kept_runs.run(
    'adaptive_gossip',
    'Gossip that adapts when it talks',
    measure,
    devices=max(WORKERS),
  )
