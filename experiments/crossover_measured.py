"""Waiting or not: real processes compared with virtual time's prediction.

    python -m experiments.crossover_measured

Jin et al., 2016 (arXiv:1611.04581), found asynchronous methods faster with few
workers, and all-reduce with many; `async_crossover` tests this in virtual time.
Here 2, 4 and 8 processes on this machine train: all-reduce over Gloo, the other
methods on the engine (config.engine='ray'). Each process sleeps until its
gradient has taken as long as a trace says, so that 8 workers fit two cores. It
takes 40 minutes on an idle machine; after a stop it resumes where it was.
"""

import functools
import itertools
import pathlib
import statistics
from typing import Any

from matplotlib.figure import Figure
from ml_collections import ConfigDict

from experiments.framework import (
  claim,
  figures,
  notes,
  other_load,
  real_time,
  result_store,
  single_run,
)
from experiments.framework.intervals import is_near
from experiments.framework.other_load import OTHERS, OVERRUN
from experiments.framework.seed_statistics import ERROR
from gossipjax.results.crossing import crossing
from gossipjax.results.standard_error import standard_error

CLAIM = claim.Claim(
  'crossover_measured',
  'Asynchronous methods against all-reduce: measured, and in virtual time',
  'Virtual time predicts within 15 % how much sooner than all-reduce an '
  'asynchronous method reaches a target, with 2 to 8 real processes',
  'no prediction; curves of real runs without a table (arXiv:1611.04581)',
)
KEPT = pathlib.Path('runs/claims')
WORKERS, SEEDS, TARGET = (2, 4, 8), 3, 0.8
STEP_S, SPREAD = 0.2, 0.3  # Of a gradient: mean, sigma of the logarithm.
EXAMPLES = 25_600  # At most, of all workers.
CALM = 20  # Steps in which an exchange is timed.
# Part of the keys of results.
TIMED = {'step': STEP_S, 'spread': SPREAD, 'calm': CALM}
DENSE = 'all-reduce'
# A strategy, and the rounds of an exchange.
METHODS = {
  DENSE: ('all_reduce', lambda workers: 2 * (workers - 1)),
  'EASGD': ('elastic', lambda workers: 2),
  'pull-gossip': ('pull_gossip', lambda workers: 1),
}
SECONDS = f'seconds to {TARGET} held out'
SPEED = "all-reduce's seconds over these"
NEAR = 0.15
OFF = 'speed measured / predicted'


def config(method: str, workers: int, seed: int, quick: bool) -> ConfigDict:
  """The config of a run, without its cluster."""
  steps = 8 if quick else EXAMPLES // (real_time.BATCH * workers)
  return real_time.config(METHODS[method][0], workers, steps, 25, seed, quick)


@functools.cache
def gradient_s(quick: bool) -> float:
  """Median seconds of computing a gradient; processes sleep the rest."""
  settings = config(DENSE, WORKERS[0], 0, quick)
  seconds = real_time.gradients_s(settings, METHODS['pull-gossip'][0], 50)
  return statistics.median(seconds)


def timed(
  method: str, workers: int, quick: bool, folder: pathlib.Path
) -> tuple[float, float | None]:
  """Measures seconds of an exchange, and seconds of computing over the trace's:
  None for all-reduce, whose seconds of computing are not known."""
  calm, path = config(method, workers, 0, quick), folder / 'trace.txt'
  calm.steps = calm.log_every = calm.eval_every = min(CALM, calm.steps)
  if method == DENSE:
    # Equal gradients would compete for the cores.
    real_time.write_trace(path, calm, STEP_S, SPREAD)
    return real_time.synchronous_exchange_s(calm, path, gradient_s(quick)), None
  mean_s = real_time.write_trace(path, calm, STEP_S, 0.0)
  return real_time.timed_exchange(calm, path, mean_s)


def row(
  cell: tuple[str, int, int],
  quick: bool,
  folder: pathlib.Path,
  store: result_store.ResultStore,
) -> dict[str, Any]:
  """Measures and predicts one method, number of workers and seed."""
  method, workers, seed = cell
  settings, path = config(*cell, quick), folder / 'trace.txt'
  rounds = METHODS[method][1]
  exchange = functools.partial(timed, method, workers, quick, folder)
  (took_s, overrun), busy = store.get_or_compute(
    f'{CLAIM.name}_exchange',
    TIMED | {'method': method, 'workers': workers, 'quick': quick},
    lambda: other_load.beside(exchange),
  )
  real_time.write_trace(path, settings, STEP_S, SPREAD)
  link = {'latency_s': took_s / rounds(workers), 'bytes_per_s': float('inf')}
  options = {'asynchronous': method != DENSE, 'target_accuracy': TARGET}
  cluster = functools.partial(real_time.machines, path, **options)
  measured, others = other_load.beside(
    lambda: (
      real_time.train_synchronous(settings, path, gradient_s(quick), TARGET)
      if method == DENSE
      else real_time.curve(real_time.train_asynchronous(settings, cluster()))
    )
  )
  predicted = real_time.curve(real_time.predicted(settings, cluster(**link)))
  seconds = lambda curve: crossing([(0.0, 0.0), *curve], TARGET)
  return {
    **{'workers': workers, 'method': method, 'seed': seed},
    f'{SECONDS}, measured': seconds(measured),
    f'{SECONDS}, predicted': seconds(predicted),
    'ms of an exchange': 1000 * took_s,
    OVERRUN: overrun,
    OTHERS: max(busy, others),
  }


def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
  """Measures all cells one after the other, keeping each when it is done."""
  store = result_store.ResultStore(folder if quick else KEPT)
  rows = []
  cells = itertools.product(WORKERS, range(SEEDS), METHODS)
  for workers, seed, method in itertools.islice(cells, 2 if quick else None):
    cell = method, workers, seed
    of = config(*cell, quick)
    key = single_run.key_of(of) | TIMED | {'target': TARGET}
    take = functools.partial(row, cell, quick, folder, store)
    rows.append(store.get_or_compute(CLAIM.name, key, take))
  (folder / 'trace.txt').unlink(missing_ok=True)
  table = speeds(rows)
  return claim.Finding(
    verdict(table, rows),
    table,
    NOTES,
    'CNN (220,234 parameters) on Fashion-MNIST, 2 to 8 processes',
    f'to {TARGET} held out, steps of {real_time.BATCH} images a worker',
    seeds=1 if quick else SEEDS,
    tables={'runs': rows},
  )


NOTES = notes.of(
  'crossover_measured',
  **TIMED,
  speed=SPEED,
  off=OFF,
  overrun=OVERRUN,
  others=OTHERS,
  most_overrun=other_load.MOST_OVERRUN,
  most_others=other_load.MOST_OTHERS,
)


def speeds(rows: claim.Rows) -> list[dict[str, Any]]:
  """Averages over seeds: a row per number of workers and method."""
  runs = lambda *cell: [r for r in rows if (r['workers'], r['method']) == cell]
  return [
    {'workers': workers, 'method': method}
    | _speed(runs(workers, method), runs(workers, DENSE))
    for workers in figures.distinct(rows, 'workers')
    for method in figures.distinct(rows, 'method')
  ]


def _speed(own: claim.Rows, dense: claim.Rows) -> dict[str, Any]:
  found: dict[str, Any] = {'seeds': len(own)}
  speeds = []  # By seed: first measured, then predicted.
  for kind in ('measured', 'predicted'):
    key = f'{SECONDS}, {kind}'
    ours, theirs = ([row[key] for row in rows] for rows in (own, dense))
    found[key] = claim.mean(ours)
    found[f'{SPEED}, {kind}'] = claim.ratio(claim.mean(theirs), found[key])
    speeds.append(list(map(claim.ratio, theirs, ours)))
  ratios = list(map(claim.ratio, *speeds))
  found[OFF] = claim.mean(ratios)
  found[f'{OFF}{ERROR}'] = standard_error(ratios) if found[OFF] else None
  for key in ('ms of an exchange', OVERRUN):
    found[key] = claim.mean([row[key] for row in own])
  return found | {OTHERS: max(row[OTHERS] for row in own)}


def verdict(rows: claim.Rows, runs: claim.Rows) -> claim.Verdict:
  """Judges each asynchronous method with each number of workers."""
  del runs
  judged = [row for row in rows if row['method'] != DENSE]
  case = lambda row: is_near(NEAR, row[OFF], row[f'{OFF}{ERROR}'], row['seeds'])
  decided = claim.decided(judged, case)
  text = '; '.join(
    f'{row["method"]} with {row["workers"]}: '
    f'{row[f"{SPEED}, measured"]:.2f} measured, '
    f'{row[f"{SPEED}, predicted"]:.2f} predicted'
    for row in judged
    if row[OFF]
  )
  return claim.make_verdict(
    [case(row) for row in judged],
    f'times as fast as all-reduce{", where decided" * (decided != judged)}: '
    f'{claim.span(decided, f"{SPEED}, measured")} measured, '
    f'{claim.span(decided, f"{SPEED}, predicted")} predicted',
    f'Times as fast as all-reduce: {text or "nothing is measured yet"}.',
    other_load.doubt(rows),
  )


def figure(rows: claim.Rows, runs: claim.Rows) -> Figure:
  """Seconds to the target against workers, measured and predicted."""
  del runs
  found = Figure(figsize=(9, 3.8), layout='constrained')
  for axes, kind in zip(
    found.subplots(1, 2, sharey=True), ('measured', 'predicted'), strict=True
  ):
    figures.lines(axes, rows, 'workers', f'{SECONDS}, {kind}', 'method', 'o-')
    axes.set(yscale='log', title=kind, ylabel=SECONDS)
    figures.over_workers(axes)
    axes.grid(alpha=0.3)
  figures.legend(found, axes)
  return found


if __name__ == '__main__':
  claim.run(CLAIM, measure, figure)
