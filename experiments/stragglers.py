"""What one slow or one lost worker of 16 costs each method.

    python -m experiments.stragglers

Worker 0 sleeps Uniform(0, 300 ms) after every gradient, as in Jin et al., 2016
(arXiv:1611.04581); or it fails for good.

It takes about 12 minutes on 2 busy cores.
"""

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.framework import claim, figures, virtual_time_runs
from experiments.framework.kept_runs import KeptRuns, run

CLAIM = claim.Claim(
  'stragglers',
  'One slow worker does not slow those who do not wait',
  'One slow or lost worker slows the steps of methods that wait, and not of '
  'those that do not',
  'curves without a table (arXiv:1611.04581)',
)
P, TARGET, STEP_S = 16, 0.75, 0.1
CLUSTER = {
  'compute': 'lognormal',
  'step_s': STEP_S,
  'spread': 0.1,
  'shards': 4,
  'timeout_s': 60.0,
  **virtual_time_runs.link(0.14 * STEP_S),
}
WEATHER = {
  'calm': {},
  'slow': {'stragglers': (0,), 'sleep_s': 0.3},
  'lost': {'failures': ((0, 1.0),)},
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
# A time with a slow or a lost worker, over the same without.
SLOW, LOST, SLOW_TARGET, LOST_TARGET = KEYS = [
  f'{what}, {kind} worker / none'
  for what in ('seconds per step', f'seconds to {TARGET} held out')
  for kind in ('slow', 'lost')
]
STOPPED = 'seconds at which a lost worker stops it'


def measure(quick: bool, kept: KeptRuns) -> claim.Finding:
  """Every method in every weather, for so many steps per worker."""
  names, steps, seeds = METHODS, 120, 3
  if quick:
    names, steps, seeds = ('all-reduce', 'pull-gossip'), 12, 1
  runs = lambda name, what: [
    _run(kept, name, steps, seed, what) for seed in range(seeds)
  ]
  in_all = lambda name: {kind: runs(name, w) for kind, w in WEATHER.items()}
  rows = [_row(name, in_all(name)) for name in names]
  return claim.Finding(
    verdict(rows),
    rows,
    NOTES.format(steps=steps, seeds=seeds),
    'MLP on Fashion-MNIST, 16 workers in virtual time',
    f'{steps} gradients per worker',
    seeds,
  )


def _run(
  kept: KeptRuns, name: str, steps: int, seed: int, weather: dict
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
  return kept.run(config)['records']


NOTES = """
16 workers, {steps} gradients each on average. A gradient takes 0.1 s
(log-normal, sigma 0.1), a model travels in 0.014 s. A step is one gradient of
each worker on average: one slow worker of 16 then lengthens the steps of a
method without waiting by at most a sixteenth of its delay. Seconds to 0.75 held
out are virtual (1,200 pictures); empty: not reached. A slow worker 0 sleeps up
to 300 ms after each gradient, a lost one fails at 1 s; the time-out is 60 s. An
MLP with 32 hidden units on Fashion-MNIST, Nesterov 0.9, learning rate 0.05
(server and async local SGD, which add up: 0.05 / 16), means over {seeds}
seed(s), no tuning.
Runs are kept, not repeated: the seconds below are those of the last call.
"""


def _row(name: str, runs: dict[str, list[virtual_time_runs.Run]]) -> dict:
  step, target = (
    {w: claim.mean([*map(number, seeds)]) for w, seeds in runs.items()}
    for number in (
      lambda r: r[-1]['virtual_s'] / r[-1]['step'],
      lambda r: virtual_time_runs.to_target(r, TARGET),
    )
  )
  stops = [
    r[-1]['virtual_s'] for r in runs['lost'] if r[-1]['lost_worker'] is not None
  ]
  return {
    'method': name,
    'seconds per step': step['calm'],
    SLOW: claim.ratio(step['slow'], step['calm']),
    LOST: None if stops else claim.ratio(step['lost'], step['calm']),
    f'seconds to {TARGET} held out': target['calm'],
    SLOW_TARGET: claim.ratio(target['slow'], target['calm']),
    LOST_TARGET: claim.ratio(target['lost'], target['calm']),
    STOPPED: claim.mean(stops) if stops else None,
  }


def verdict(rows: claim.Rows) -> claim.Verdict:
  """The slow-downs of methods that wait for all and of those that do not.

  A case is a method that does not wait. The claim is met where a slow worker
  slows its steps less than those of any method that waits, and a lost one does
  not stop it although it stops all that wait.
  """
  waits, free = (
    [row for row in rows if METHODS[row['method']][1] is how]
    for how in (WAITS, FREE)
  )
  stop, lost = (
    [row for row in these if row[STOPPED] is not None]
    for these in (waits, free)
  )
  least = min(row[SLOW] for row in waits)
  good = lambda row: row[SLOW] < least and row not in lost and stop == waits
  of = lambda key: (claim.span(waits, key), claim.span(free, key))
  (slow, steady), (later, as_soon) = of(SLOW), of(SLOW_TARGET)
  stopped = f'{len(stop)} of {len(waits)}', f'{len(lost)} of {len(free)}'
  backup = ''.join(
    f' Waiting for the first {P - 1} only: {row[SLOW]:.2f} times as long.'
    for row in rows
    if row['method'] == BACKUP
  )
  return claim.Verdict(
    sum(map(good, free)),
    len(free),
    f'a slow worker makes a step {slow} times as long where methods wait, '
    f'{steady} where not; a lost one stops {stopped[0]} and {stopped[1]}',
    f'One worker of {P} that sleeps up to 300 ms makes a step {slow} times as '
    f'long for methods that wait for all, {steady} for those that wait for '
    f'nobody; their time to {TARGET} held out grows by {later} and {as_soon}. '
    f'A lost worker stops {stopped[0]} methods that wait, {stopped[1]} that do '
    f'not.{backup}',
  )


def figure(rows: claim.Rows) -> Figure:
  """Bars: time per step and to the target, with a slow or a lost worker."""
  found = Figure(figsize=(9, 0.9 + 0.32 * len(rows)), layout='constrained')
  panels = found.subplots(1, 2, sharey=True)
  stops = lambda row, key: row[STOPPED] and 'lost' in key
  why = lambda row, key: 'stops' if stops(row, key) else 'not reached'
  for axes, keys in zip(panels, (KEYS[:2], KEYS[2:]), strict=True):
    figures.bars(axes, rows, 'method', keys, why)
    axes.set_xlabel(keys[0].partition(',')[0])
  panels[0].invert_yaxis()
  found.supxlabel('over the same without', fontsize=9)
  names = 'worker 0 is slow', 'worker 0 is lost'
  handles = [Patch(color=f'C{i}', label=name) for i, name in enumerate(names)]
  found.legend(frameon=False, loc='outside right upper', handles=handles)
  return found


if __name__ == '__main__':
  run(CLAIM, measure, figure, devices=1)
