"""Training between sites: the DiLoCo family against all-reduce with AdamW.

    python -m experiments.sites

A language model and pictures, IID and not, at equal tokens, with inner and
outer rates tuned per method: loss, bytes, and modelled seconds on two links.

arXiv:2311.08105, 2501.18512, 2506.10911, 2508.15706 and 2505.23725
"""

from functools import partial
from typing import Any

from matplotlib.figure import Figure

from experiments.framework import (
  best_rate,
  claim,
  figures,
  seed_statistics,
  site_methods,
  study,
  trained,
  workloads,
)
from experiments.framework.kept import Kept
from experiments.framework.seed_statistics import ERROR, LOSS, PATH
from experiments.framework.site_methods import METHODS, OUTER, PERIOD

CLAIM = claim.Claim(
  'sites',
  'Training between sites',
  'DiLoCo and its descendants reach the loss of all-reduce, or of DiLoCo, with '
  'a fraction of the bytes',
  'DiLoCo, streaming, 4 bits lose nothing; NoLoCo matches DiLoCo; SparseLoCo, '
  'MuLoCo beat it with fewer bytes',
)
NAMES = ('workload', 'workers', 'split', 'method')
SPLITS = {
  'fashion-dense': ('iid', 'dirichlet'),
  'shakespeare-lstm': ('iid', 'contiguous'),
  'fashion': ('iid', 'dirichlet'),
  'shakespeare': ('iid', 'contiguous'),
}
WORKERS = (4, 2, 8)
# What is judged against what; all other methods are shown beside all-reduce.
AGAINST = {
  'diloco': 'all_reduce',
  'streaming_diloco': 'diloco',
  'diloco, 4 bits': 'diloco',
  'noloco': 'diloco',
  'sparse_loco': 'diloco',
  'muloco': 'diloco',
}
WITHIN = 0.02  # Nats.
LOST, SHARE = 'nats over it', 'bytes over its'


def studies(scale: str) -> trained.Studies:
  """By workload, P, split and method: judged ones first, the quicker first."""
  judged = 'all_reduce', *AGAINST
  cells = [
    (name, workers, splits[i], method)
    for workers in WORKERS
    for i in range(2)
    for name, splits in SPLITS.items()
    for method in sorted(METHODS, key=lambda m: m not in judged)
    if workers == WORKERS[0] or method in judged
  ]
  cells = cells[:2] if scale == 'quick' else cells
  return {cell: partial(_study, *cell, scale) for cell in cells}


def _study(
  name: str, workers: int, split: str, method: str, scale: str
) -> study.Study:
  """Inner rates at one outer rate, then outer rates, then all seeds."""
  config = site_methods.config(name, workers, split, method, scale)
  if scale == 'quick':
    return (yield from best_rate.tuned(name, config, seeds=1, trials=1))
  first = yield from best_rate.tuned(name, config, seeds=0)
  if first.rate is None:
    return first
  if METHODS[method].outer:
    tried = [site_methods.with_outer(config, method, rate) for rate in OUTER]
    runs = yield [
      study.Ask(name, best_rate.on_validation(other, first.rate))
      for other in tried
    ]
    scores = map(workloads.WORKLOADS[name].score, runs)
    known = {i: score for i, score in enumerate(scores) if score is not None}
    config = tried[max(known, key=lambda i: known[i])]
  runs = yield [
    study.Ask(name, best_rate.seeded(config, first.rate, seed))
    for seed in range(best_rate.SEEDS)
  ]
  return first._replace(runs=runs)


def find(
  found: trained.Results, coverage: claim.Rows, kept: Kept
) -> claim.Finding:
  """A row for each method, beside the one that it is compared with."""
  del kept
  rows = [_row(found, cell) for cell in found]
  return claim.Finding(
    verdict(rows, coverage),
    rows,
    NOTES,
    *trained.evidence(rows, coverage),
    tables={'coverage': coverage},
  )


def _row(found: trained.Results, cell: tuple) -> dict[str, Any]:
  tuned, other = found[cell], AGAINST.get(cell[-1], 'all_reduce')
  row = seed_statistics.row(seed_statistics.columns(NAMES, cell), tuned)
  theirs = found.get((*cell[:-1], other))
  lost, error = (
    seed_statistics.difference(tuned, theirs, LOSS) if theirs else (None, None)
  )
  path = seed_statistics.row({}, theirs)[PATH] if theirs else None
  runs = [run for run in tuned.runs if not run['diverged']]
  seconds = {
    f'communication seconds on {link} (model)': claim.ratio(
      sum(run['comm_s'][link] for run in runs), len(runs)
    )
    for link in ('wan', '1gbe')
  }
  return (
    row
    | seconds
    | {
      'compared with': other,
      LOST: lost,
      f'{LOST}{ERROR}': error,
      SHARE: claim.ratio(row[PATH], path),
    }
  )


def verdict(rows: claim.Rows, coverage: claim.Rows) -> claim.Verdict:
  """In which cells a method loses no more than WITHIN nats."""
  mine = [row for row in rows if row['method'] in AGAINST]
  cases = [
    seed_statistics.at_least(
      -WITHIN,
      None if row[LOST] is None else -row[LOST],
      row[f'{LOST}{ERROR}'],
      WITHIN,
    )
    for row in mine
  ]
  told = '; '.join(
    f'{row["method"]} on {row["workload"]} ({row["split"]}, P = '
    f'{row["workers"]}) against {row["compared with"]} '
    f'{seed_statistics.told(row[LOST], row[f"{LOST}{ERROR}"])}'
    for row in mine
  )
  return claim.judged(
    cases,
    f'{claim.span(mine, LOST, "+.3f")} nats over what each is compared with, '
    f'at {claim.span(mine, SHARE)} of its bytes',
    f'A method holds if it loses at most {WITHIN} nats. Nats lost: '
    f'{told or "no runs yet"}.',
    trained.doubt(coverage),
  )


NOTES = f"""
Period {PERIOD} where the name says nothing. Inner rates on a grid of sqrt(10)
at the outer rate {site_methods.FIRST}, then the outer rates {OUTER}, by
validation data; then {best_rate.SEEDS} seeds. The state of inner optimizers
stays with its worker. muloco is DiLoCo with Muon inside, embeddings and head
included. Bytes are those of the busiest link per step, over the whole run;
seconds are modelled.
"""


def figure(rows: claim.Rows, coverage: claim.Rows) -> Figure:
  """Held-out loss against bytes, a panel for each workload and split."""
  del coverage
  places = list(dict.fromkeys((r['workload'], r['split']) for r in rows))
  found = Figure(figsize=(5.5 * len(places), 4.2), layout='constrained')
  panels = found.subplots(1, len(places), squeeze=False)[0]
  for axes, (name, split) in zip(panels, places, strict=True):
    for method in METHODS:
      mine = [
        r
        for r in rows
        if (r['workload'], r['split'], r['method']) == (name, split, method)
      ]
      axes.plot(
        [r[PATH] for r in mine], [r[LOSS] for r in mine], 'o', label=method
      )
    axes.set(title=f'{name}, {split}', xlabel=PATH, ylabel=LOSS, xscale='log')
  figures.legend(found, *panels)
  return found


if __name__ == '__main__':
  trained.run(CLAIM, studies, find, figure)
