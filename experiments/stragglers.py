"""What one slow or one lost worker of 16 costs each method.

    python -m experiments.stragglers

Worker 0 sleeps Uniform(0, 300 ms) after every gradient, as in Jin et al., 2016
(arXiv:1611.04581); or it fails for good.

It takes about 12 minutes on 2 busy cores.
"""

import pathlib

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.framework import claim, virtual_time_runs

P, TARGET, STEP_S = 16, 0.75, 0.1
PARAMETERS = 784 * 32 + 32 + 32 * 10 + 10
LINK = {'latency_s': 1e-4, 'bytes_per_s': 4 * PARAMETERS / (0.14 * STEP_S)}
CLUSTER = {
  'compute': 'lognormal',
  'step_s': STEP_S,
  'spread': 0.1,
  'shards': 4,
  'timeout_s': 60.0,
  **LINK,
}
FAILS_S = 1.0
WEATHER = {
  'calm': {},
  'slow': {'stragglers': (0,), 'sleep_s': 0.3},
  'lost': {'failures': ((0, FAILS_S),)},
}
BACKUP = 'backup, first 15'
FREE, WAITS = virtual_time_runs.ASYNCHRONOUS, virtual_time_runs.WAITS
METHODS = {
  'all-reduce': ('all_reduce', WAITS, {}),
  BACKUP: ('all_reduce', {**WAITS, 'first': P - 1}, {}),
  'top-k': ('topk', WAITS, {}),
  'gTop-k': ('gtopk', WAITS, {'density': 0.01}),
  'local SGD, 8': ('local_sgd', WAITS, {}),
  'async local SGD, 8': ('local_sgd', FREE, {}),
  'server': ('parameter_server', FREE, {}),
  'EASGD': ('elastic', FREE, {}),
  'pull-gossip': ('pull_gossip', FREE, {}),
  'push-gossip': ('push_gossip', FREE, {}),
  'AD-PSGD': ('pairwise_gossip', FREE, {}),
  'GoSGD': ('push_sum', FREE, {'topology': 'complete'}),
  'adaptive gossip': ('adaptive_gossip', FREE, {'topology': 'complete'}),
}
# Who adds up all workers' steps takes a sixteenth of the others' rate.
RATES = {'server': 0.05 / P, 'async local SGD, 8': 0.05 / P}


def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
  """Every method in every weather, for so many steps per worker."""
  names, steps, seeds = (
    (('all-reduce', 'pull-gossip'), 12, 1) if quick else (METHODS, 120, 3)
  )
  rows = [
    _row(
      name,
      {
        weather: [
          _run(folder, name, steps, seed, what) for seed in range(seeds)
        ]
        for weather, what in WEATHER.items()
      },
    )
    for name in names
  ]
  return claim.Finding(
    rows, _figure(rows), verdict(rows), NOTES.format(steps=steps, seeds=seeds)
  )


def _run(
  folder: pathlib.Path, name: str, steps: int, seed: int, weather: dict
) -> virtual_time_runs.Run:
  strategy, how, given = METHODS[name]
  config = virtual_time_runs.config(
    strategy,
    P,
    steps,
    RATES.get(name, 0.05),
    cluster={**CLUSTER, **how, **weather},
    **given,
  )
  config.seed = seed
  return virtual_time_runs.run(folder, config)


NOTES = """
16 workers, {steps} gradients each on average. A gradient takes 0.1 s
(log-normal, sigma 0.1), a model travels in 0.014 s. Pace: virtual seconds per
step, where a step is a gradient of each worker on average, so that a slow
worker costs who does not wait no more than its own share. Target: virtual
seconds to 0.75 held out (1,200 pictures); empty: not reached. Lost: worker 0
fails at 1 s; the time-out is 60 s. An MLP with 32 hidden units on
Fashion-MNIST, Nesterov 0.9, eta 0.05 (server and async local SGD, which add
up: 0.05 / 16), means over {seeds} seed(s), no tuning.
Runs are kept, not repeated: the seconds below are those of the last call.
"""


def _row(name: str, runs: dict[str, list[virtual_time_runs.Run]]) -> dict:
  pace = {
    w: _mean([r[-1]['virtual_s'] / r[-1]['step'] for r in seeds])
    for w, seeds in runs.items()
  }
  target = {
    w: _mean([virtual_time_runs.to_target(r, TARGET) for r in seeds])
    for w, seeds in runs.items()
  }
  stops = [
    r[-1]['virtual_s'] for r in runs['lost'] if r[-1]['lost_worker'] is not None
  ]
  stopped = bool(stops)
  return {
    'method': name,
    'pace, calm: s': pace['calm'],
    'pace, slow / calm': _ratio(pace['slow'], pace['calm']),
    'pace, lost / calm': None
    if stopped
    else _ratio(pace['lost'], pace['calm']),
    'target, calm: s': target['calm'],
    'target, slow / calm': _ratio(target['slow'], target['calm']),
    'target, lost / calm': _ratio(target['lost'], target['calm']),
    'stopped at: s': _mean(stops) if stopped else None,
  }


def _mean(values: list[float | None]) -> float | None:
  """None if one is."""
  return None if None in values else sum(values) / len(values)


def _ratio(a: float | None, b: float | None) -> float | None:
  return a / b if a and b else None


def verdict(rows: list[dict]) -> str:
  """Slow-downs of those who wait and of those who do not."""
  free = [row for row in rows if METHODS[row['method']][1] is FREE]
  waits = [row for row in rows if METHODS[row['method']][1] is WAITS]
  backup = [row for row in rows if row['method'] == BACKUP]

  def span(of, key):
    found = [row[key] for row in of if row[key] is not None]
    return f'{min(found):.2f} to {max(found):.2f}' if found else 'unknown'

  slow, stopped = 'pace, slow / calm', 'stopped at: s'
  worst = max(row[slow] for row in free if row[slow])
  best = min(row[slow] for row in waits if row[slow])
  held = (
    worst < best
    and not any(row[stopped] for row in free)
    and all(row[stopped] for row in waits)
  )
  return (
    f'{"Holds" if held else "Does not hold"}: one worker of {P} that sleeps '
    f'up to 300 ms makes a step {span(waits, slow)} times as long for those '
    f'who wait for all, {span(free, slow)} for those who wait for nobody; '
    f'their time to {TARGET} held out grows by {span(waits, TIME)} and '
    f'{span(free, TIME)}. A lost worker stops '
    f'{sum(row[stopped] is not None for row in waits)} of {len(waits)} who '
    f'wait, {sum(row[stopped] is not None for row in free)} of {len(free)} '
    'who do not.'
    + ''.join(
      f' Waiting for the first {P - 1} only makes a step {row[slow]:.2f} '
      'times as long.'
      for row in backup
    )
  )


TIME = 'target, slow / calm'


def _figure(rows: list[dict]) -> Figure:
  figure = Figure(figsize=(9, 0.9 + 0.32 * len(rows)), layout='constrained')
  panels = figure.subplots(1, 2, sharey=True)
  kinds = {'slow': 'C0', 'lost': 'C1'}
  for axes, what in zip(panels, ('pace', 'target'), strict=True):
    for k, (kind, color) in enumerate(kinds.items()):
      for y, row in enumerate(rows):
        value = row[f'{what}, {kind} / calm']
        at = y + 0.18 * (2 * k - 1)
        if value is None:
          axes.text(
            0.02,
            at,
            'stops'
            if kind == 'lost' and row['stopped at: s']
            else 'not reached',
            va='center',
            fontsize=7,
          )
        else:
          axes.barh(at, value, 0.34, color=color)
    axes.axvline(1, color='0.5', linewidth=0.8)
    axes.set_xlabel(
      'time per step' if what == 'pace' else f'time to {TARGET} held out'
    )
  panels[0].set_yticks(range(len(rows)), [row['method'] for row in rows])
  panels[0].invert_yaxis()
  figure.supxlabel('over the same without', fontsize=9)
  figure.legend(
    frameon=False,
    loc='outside right upper',
    handles=[
      Patch(color=c, label=f'worker 0 is {kind}') for kind, c in kinds.items()
    ],
  )
  return figure


if __name__ == '__main__':
  claim.run('stragglers', 'Who waits for nobody is not slowed by one', measure)
