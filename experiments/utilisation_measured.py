"""The share of time that workers compute, on real, slow links.

    python -m experiments.utilisation_measured

utilisation.py models this share for language models. Here it is measured for a
dense network that this machine can train, in network namespaces, at several
link rates, with and without exchanges that overlap computing. Needs Linux,
root, iproute2, a core for each worker, and an otherwise idle machine. Each
training is kept in runs/claims when it ends, and the next call resumes there;
after --within_minutes=N no training begins, and the table has what is kept.
"""

import itertools
import pathlib
import time
from typing import Any

from absl import flags
from matplotlib.figure import Figure

from experiments.framework import claim, figures, notes
from experiments.framework.result_store import ResultStore
from experiments.testbed import link_shape
from experiments.testbed.utilisation import (
  EVERY,
  MEASURED,
  METHODS,
  MODELLED,
  STEPS,
  UNLIMITED,
  bandwidths,
  is_kept,
  row,
)

NEAR = 0.15
CLAIM = claim.Claim(
  'utilisation_measured',
  'The share of time that workers compute, modelled and measured',
  'The link model gives the seconds of a step within 15 % at every rate, with '
  'and without exchanges beside computing',
  'nothing; the goal is ours',
)
WITHIN = flags.DEFINE_float(
  'within_minutes', 60.0, 'After which no training begins.'
)
RATES = ('100mbit', '300mbit', '1gbit')
WORKERS, CORES = (2, 4), 2  # Cores of the machine.
RATIO = 'modelled over measured'


def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
  """Measures all methods, rates and numbers of workers; quick, one of each."""
  kept = ResultStore(folder if quick else pathlib.Path('runs/claims'))
  cells = list(itertools.product(WORKERS, RATES, METHODS))
  deadline, rows = time.monotonic() + 60 * WITHIN.value, []
  for workers, rate, name in cells[: 1 if quick else None]:
    if time.monotonic() < deadline or is_kept(kept, workers, rate, name):
      found = row(kept, workers, rate, name)
      ratio = found['step s, modelled'] / found['step s, measured']
      rows.append(found | {RATIO: ratio})
  bandwidth = bandwidths(rows)
  return claim.Finding(
    verdict(rows, bandwidth),
    rows,
    NOTES,
    'a dense network of 4.35 M parameters on digits, 128 examples a worker',
    f'{STEPS} steps each',
    seeds=0,
    tables={'bandwidth': bandwidth},
  )


def verdict(rows: claim.Rows, bandwidth: claim.Rows) -> claim.Verdict:
  """Judges each method at each rate with each number of workers."""
  del bandwidth
  near = [_is_near(row) for row in rows]
  total = len(WORKERS) * len(RATES) * len(METHODS)
  sure = claim.decided(rows, _is_near)
  ours = f'the model gives {claim.span(sure, RATIO)} of the measured step'
  far = [
    f'{r["method"]} at {r["link rate"]}, P = {r["workers"]} ({r[RATIO]:.3f})'
    for r, is_near in zip(rows, near, strict=True)
    if is_near is False
  ]
  text = f' Further off are {", ".join(far)}.' if far else ''
  return claim.make_verdict(
    near,
    ours,
    f'Over {len(sure)} methods, rates and numbers of workers {ours} (goal: '
    f'{1 - NEAR} to {1 + NEAR}).{text}',
    f'{len(rows)} of {total} rows are measured' if len(rows) < total else '',
  )


def _is_near(row: dict[str, Any]) -> bool | None:
  """Whether the model is near; None if workers share a core (20 % noise)."""
  return None if row['workers'] > CORES else abs(row[RATIO] - 1) <= NEAR


NOTES = notes.of(
  'utilisation_measured',
  every=EVERY,
  unlimited=UNLIMITED,
)


def figure(rows: claim.Rows, bandwidth: claim.Rows) -> Figure:
  """Shares of computing by rate, for each number of workers."""
  del bandwidth
  counts = figures.distinct(rows, 'workers')
  found = Figure(figsize=(4 * len(counts) + 3, 4), layout='constrained')
  for axes, workers in zip(
    found.subplots(1, len(counts), squeeze=False)[0], counts, strict=True
  ):
    for i, name in enumerate(figures.distinct(rows, 'method')):
      group = [
        r for r in rows if (r['workers'], r['method']) == (workers, name)
      ]
      rates = [
        8e-6 * (link_shape.parse(r['link rate']).bytes_per_s or 0)
        for r in group
      ]
      for column, form in ((MEASURED, 'o-'), (MODELLED, ':')):
        axes.plot(
          rates,
          [100 * r[column] for r in group],
          form,
          color=f'C{i}',
          label=name if column == MEASURED else None,
        )
    axes.set(
      xscale='log',
      xlabel='Mbit/s',
      ylabel='% of the time computing (dotted: modelled)',
      title=f'{workers} workers',
    )
    axes.set_xticks(rates, [f'{r:.0f}' for r in rates])
  found.legend(
    *axes.get_legend_handles_labels(),
    loc='outside right upper',
    fontsize=7,
    frameon=False,
  )
  return found


if __name__ == '__main__':
  claim.run(CLAIM, measure, figure)
