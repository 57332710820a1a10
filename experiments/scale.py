"""Scale: what each method sends with 16, 1,024 and 65,536 workers.

    python -m experiments.scale

Makes the bills of 4 to 256 simulated workers. For more workers it extrapolates
by the law through these bills, a + b P + c / P + d log2 P, which is tested on
32 workers. docs/scale.md discusses the results.
"""

import pathlib
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments.framework import claim, figures, notes, period_bills
from experiments.framework.period_bills import METHODS
from gossipjax import network

CLAIM = claim.Claim(
  'scale',
  'What each method sends with 16 to 65,536 workers',
  'What a worker sends does not grow with the number of workers',
  'of NoLoCo (arXiv:2506.10911): one partner whatever P',
)
BILLED, TRIED = (4, 16, 64, 256), 32
SIZES = (16, 1024, 65_536)
GROWS = 2.0  # Times the bytes of 4 workers at 65,536; a ring's are 1.33 times.
MODEL = 1e9  # Parameters of the model that the tables are about.
WAN = network.PRESETS['wan']


class Period(NamedTuple):
  """Traffic of one period: of the worker with the most, or the mean.

  Attributes:
    bytes: sent.
    rounds: that follow one another.
    path_bytes: on the busiest link of those rounds.
    mean_bytes: sent, mean over all workers.
  """

  bytes: float
  rounds: float
  path_bytes: float
  mean_bytes: float


def bill(name: str, workers: int) -> Period:
  """Traffic of one period of a method, for a model of MODEL parameters."""
  traffic = period_bills.bill(name, workers)
  most = lambda count: float(count.sum(axis=1).max())
  return Period(
    MODEL * most(traffic.bytes),
    most(traffic.rounds),
    MODEL * most(traffic.path_bytes),
    MODEL * float(traffic.bytes.sum(axis=1).mean()),
  )


def extrapolated(name: str, workers: int) -> Period:
  """The same, by the law through the bills of BILLED workers."""
  terms = lambda p: np.array([1.0, p, 1 / p, np.log2(p)])
  law = np.linalg.solve(
    np.stack([terms(p) for p in BILLED]),
    np.array([bill(name, p) for p in BILLED]),
  )
  return Period(*map(float, terms(workers) @ law))


def row(name: str, workers: int) -> dict:
  """The row of a method and a number of workers, for MODEL parameters."""
  is_billed = workers in BILLED
  traffic = bill(name, workers) if is_billed else extrapolated(name, workers)
  period = METHODS[name].period
  seconds = (
    traffic.rounds * WAN.latency_s + traffic.path_bytes / WAN.bytes_per_s
  )
  return {
    'method': name,
    'workers': workers,
    'extrapolated': not is_billed,
    'bytes per worker and step': traffic.bytes / period,
    'bytes of all workers per step': workers * traffic.mean_bytes / period,
    'rounds of a period': traffic.rounds,
    'seconds of a period on a wan': seconds,
  }


def error(name: str) -> float:
  """Relative error of the law's bytes at TRIED workers, not used to fit it."""
  return abs(extrapolated(name, TRIED).bytes / bill(name, TRIED).bytes - 1)


def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
  """Bills all methods and numbers of workers; quick, two methods."""
  del folder
  names = list(METHODS)[: 2 if quick else None]
  rows = [row(name, p) for name in names for p in (4, *SIZES)]
  tried = [
    {'method': name, f'error at {TRIED} workers, %': 100 * error(name)}
    for name in names
  ]
  return claim.Finding(
    verdict(rows, tried),
    rows,
    NOTES,
    f'bills of {len(names)} methods for {MODEL:.0e} parameters',
    'one period, no training',
    seeds=0,
    tables={'tried': tried},
  )


def verdict(rows: claim.Rows, tried: claim.Rows) -> claim.Verdict:
  """Counts methods whose bytes grow at most GROWS times, P = 4 to 65,536."""
  bytes_of = {
    (row['method'], row['workers']): row['bytes per worker and step']
    for row in rows
  }
  names = figures.distinct(rows, 'method')
  ratios = {n: bytes_of[n, SIZES[-1]] / bytes_of[n, 4] for n in names}
  grow = [name for name in names if ratios[name] > GROWS]
  worst = max(line[f'error at {TRIED} workers, %'] for line in tried)
  return claim.Verdict(
    len(names) - len(grow),
    len(names),
    f'grows for {len(grow)} of {len(names)} methods: '
    f'{"; ".join(grow) or "none"}',
    f'From 4 to {SIZES[-1]:,} workers the bytes of a worker grow more than '
    f'{GROWS:g} times for {"; ".join(grow) or "no method"}. The law behind the '
    f'extrapolation is {worst:.2g} % off the bill of {TRIED} workers at most.',
  )


NOTES = notes.of(
  'scale',
  model=MODEL,
  large=SIZES[1],
  huge=SIZES[2],
  billed=BILLED,
  latency=WAN.latency_s * 1000,
  rate=8 * WAN.bytes_per_s / 1e6,
)


def figure(rows: claim.Rows, tried: claim.Rows) -> Figure:
  """Bytes per worker and step against workers."""
  del tried
  found = Figure(figsize=(10, 5.5), layout='constrained')
  axes = found.subplots()
  column = lambda name, key: [row[key] for row in rows if row['method'] == name]
  figures.curves(
    axes,
    {
      name: (column(name, 'workers'), column(name, 'bytes per worker and step'))
      for name in figures.distinct(rows, 'method')
    },
  )
  axes.loglog()
  axes.set(xlabel='workers', ylabel='bytes per worker and step')
  figures.legend(found, axes)
  return found


if __name__ == '__main__':
  claim.run(CLAIM, measure, figure)
