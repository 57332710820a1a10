"""Do asynchronous methods reach an accuracy first, and with how many workers?

    python -m experiments.async_crossover

Jin et al., 2016, found asynchronous methods (elastic averaging and gossip)
faster up to about 32 workers and all-reduce beyond, depending on the learning
rate. arXiv:1611.04581
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from experiments.framework import (
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
from experiments.framework.virtual_time import TARGET

CLAIM = claim.Claim(
  'async_crossover',
  'Asynchronous methods against all-reduce, by number of workers',
  'Asynchronous methods are faster than all-reduce up to about 32 workers, and '
  'slower beyond',
  'curves without a table (arXiv:1611.04581)',
)
STEP_S, SPREAD = 0.1, 0.3
# A model is sent in 0.14 of a gradient's time: 45 MB of ResNet-18 on 10 Gbit/s
# against 0.25 s for 32 images. With four shards a server serves 28 workers.
CLUSTER = {
  'step_s': STEP_S,
  'spread': SPREAD,
  'shards': 4,
  **virtual_time.link(0.14 * STEP_S),
}
METHODS = {
  'all-reduce': ('all_reduce', virtual_time.SYNCHRONOUS),
  'EASGD': ('elastic', virtual_time.ASYNCHRONOUS),
  'pull-gossip': ('pull_gossip', virtual_time.ASYNCHRONOUS),
  'push-gossip': ('push_gossip', virtual_time.ASYNCHRONOUS),
  'server': ('parameter_server', virtual_time.ASYNCHRONOUS),
}
ASYNC_METHODS = [name for name in METHODS if name != 'all-reduce']
WORKERS = (8, 32, 16, 4, 64, 128)
NAMES = ('workload', 'workers', 'method')
TIME = f'virtual seconds to {TARGET} held out'
PART = "part of all-reduce's seconds"
SPEED = "all-reduce's seconds over these"
LEAD = 0.9  # Of all-reduce's seconds, at most.


def studies(scale: str) -> training_claim.Studies:
  """Studies by P and method; both sides of the published crossover first."""
  sizes = (4,) if scale == 'quick' else WORKERS
  names = list(METHODS)[: 2 if scale == 'quick' else None]
  cells = [('fashion', p, name) for p in sizes for name in names]
  return {cell: partial(_study, *cell[1:], scale) for cell in cells}


def _study(workers: int, name: str, scale: str) -> study.Study:
  strategy, mode = METHODS[name]
  # The server sums all workers' updates.
  rate = 0.05 / workers if name == 'server' else 0.05
  cluster = {**CLUSTER, **mode}
  config = virtual_time.config(strategy, workers, scale, cluster, rate)
  return virtual_time.tuned(config, scale)


def find(
  found: training_claim.Results, coverage: claim.Rows, kept: ResultStore
) -> claim.Finding:
  """Builds a row for each method and P."""
  del kept
  rows = []
  for cell in sorted(found, key=lambda cell: cell[1]):
    tuned = found[cell]
    dense = found.get((*cell[:2], 'all-reduce'))
    part, error = virtual_time.time_ratio(tuned, dense)
    rows.append(
      seed_statistics.columns(NAMES, cell)
      | {
        'seeds': len(tuned.runs),
        **virtual_time.best_rate_columns(tuned),
        TIME: virtual_time.mean_seconds(tuned),
        f'{TIME}{seed_statistics.ERROR}': virtual_time.error(tuned),
        PART: part,
        f'{PART}{seed_statistics.ERROR}': error,
        SPEED: claim.ratio(1, part),
      }
    )
  return claim.Finding(
    verdict(rows, coverage),
    rows,
    NOTES,
    'CNN (220,234 parameters) on Fashion-MNIST in virtual time',
    f'to {TARGET} held out, at most {virtual_time.EPOCHS} epochs of gradients',
    *seed_statistics.counts(rows),
    tables={'coverage': coverage},
  )


NOTES = notes.of(
  'async_crossover',
  target=TARGET,
  lead=LEAD,
)


def leads(rows: claim.Rows, name: str) -> dict[int, bool | None]:
  """By P, whether a method takes at most LEAD of all-reduce's time; None where
  the seeds cannot tell."""
  found = {}
  for row in (row for row in rows if row['method'] == name):
    key = row['workers'], 'all-reduce'
    dense = (r for r in rows if (r['workers'], r['method']) == key)
    found[row['workers']] = _leads(row, next(dense, None))
  return found


def _leads(row: dict[str, Any], dense: dict[str, Any] | None) -> bool | None:
  if dense is None or dense[TIME] is None:
    return None
  if row[TIME] is None:
    return False if row[seed_statistics.INSIDE] else None
  error = row[f'{PART}{seed_statistics.ERROR}']
  return intervals.is_below(LEAD, row[PART], error, row['seeds'])


def ends_near_32(found: Mapping[int, bool | None]) -> bool | None:
  """Whether a method leads up to some P from 16 to 64, and not beyond; None
  while undecided or missing numbers of workers could change the answer."""
  possible = [
    all(found.get(p) in (p <= last, None) for p in WORKERS)
    for last in (16, 32, 64)
  ]
  if not any(possible):
    return False
  return True if None not in map(found.get, WORKERS) else None


def verdict(rows: claim.Rows, coverage: claim.Rows) -> claim.Verdict:
  """Judges for each asynchronous method whether its lead ends near P = 32."""
  cases, texts = [], []
  for name in ASYNC_METHODS if rows else ():
    found = leads(rows, name)
    cases.append(ends_near_32(found))
    speeds = ', '.join(
      f'{row[SPEED]:.2f} with {row["workers"]}'
      for row in rows
      if row['method'] == name and row[SPEED]
    )
    texts.append(f'{name} (times as fast as all-reduce: {speeds or "unknown"})')
  done = sum(case is not None for case in cases)
  present = {(row['workers'], row['method']) for row in rows}
  missing = {(p, name) for p in WORKERS for name in ASYNC_METHODS} - present
  doubt = (
    '' if done else 'not all numbers of workers are trained' * bool(missing)
  )
  return claim.make_verdict(
    cases,
    f'leads that end at 16 to 64 workers: {sum(map(bool, cases))} of {done} '
    f'decided; {_fastest_at_32(rows)}'
    if done
    else _so_far(rows),
    f'{"; ".join(texts) or "Nothing is trained yet"}.',
    training_claim.doubt(coverage) or doubt,
  )


def _so_far(rows: claim.Rows) -> str:
  known = [row for row in rows if row['method'] in ASYNC_METHODS and row[SPEED]]
  if not known:
    return 'nothing yet'
  return (
    f'{claim.span(known, SPEED, ".2f")} times as fast as all-reduce with '
    f'{claim.span(known, "workers", "d")} workers; no method is decided'
  )


def _fastest_at_32(rows: claim.Rows) -> str:
  """Names the fastest asynchronous method at P = 32; its speed at each P."""
  known = [row for row in rows if row['method'] in ASYNC_METHODS and row[SPEED]]
  at_32 = {row['method']: row[SPEED] for row in known if row['workers'] == 32}
  best = max(at_32, key=lambda method: at_32[method], default='none')
  speeds = [
    f'{r[SPEED]:.2f} ({r["workers"]})' for r in known if r['method'] == best
  ]
  return f'{best}, times as fast as all-reduce: {", ".join(speeds)}'


def figure(rows: claim.Rows, coverage: claim.Rows) -> Figure:
  """Time to the target and its standard error against workers."""
  del coverage
  found = Figure(figsize=(7, 4), layout='constrained')
  axes = found.subplots()
  error = f'{TIME}{seed_statistics.ERROR}'
  figures.lines(axes, rows, 'workers', TIME, 'method', 'o-', error=error)
  for i, name in enumerate(figures.distinct(rows, 'method')):
    missed = [r for r in rows if r['method'] == name and r[TIME] is None]
    axes.plot(  # At the upper edge: a seed does not reach the target.
      [row['workers'] for row in missed],
      [0.98 - 0.03 * i for _ in missed],
      f'C{i}x',
      transform=axes.get_xaxis_transform(),
    )
  axes.plot([], [], 'x', color='0.5', label='not reached')
  axes.set(yscale='log', ylabel=f'{TIME}\n(bars: standard error)')
  figures.over_workers(axes)
  axes.grid(alpha=0.3)
  figures.legend(found, axes)
  return found


if __name__ == '__main__':
  training_claim.run(CLAIM, studies, find, figure)
