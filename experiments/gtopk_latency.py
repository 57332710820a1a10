"""gTop-k on links with high latency: 10 ms each way at 100 Mbit/s, measured.

    python -m experiments.gtopk_latency

With P workers, the published tree needs 2 log2(P) rounds, a butterfly, in which
partners exchange, log2(P), and a dense ring 2 (P - 1). Network namespaces
exchange gradients of ResNet-20's size. Needs Linux, root, iproute2, and
sch_netem or vde2. Each row is kept in runs/claims as soon as it is measured.

Shi et al., 2019. arXiv:1901.04359
"""

import pathlib
from typing import Any

from matplotlib.figure import Figure

from experiments.framework import claim, notes
from experiments.framework.published_throughput import MODELS
from experiments.framework.result_store import ResultStore
from experiments.testbed import timed_schemes
from gossipjax.network import link

CLAIM = claim.Claim(
  'gtopk_latency',
  'gTop-k on a link of 10 ms',
  'Where links delay by 10 ms, gTop-k between partners takes at most 0.6 of '
  'the seconds of the published tree, and the tree less than a dense ring',
  'the tree is that of arXiv:1901.04359, timed on 1 GbE; no figure for such a '
  'latency',
)
DENSITY, MODEL, RATE, DELAY = 0.001, 'ResNet-20', '100mbit', '10ms'
LINK = link(10e-3, 100e6 / 8)
RING, TREE, PARTNERS = 'dense ring', 'gTop-k tree', 'gTop-k butterfly'
SCHEMES = {
  RING: ('all_reduce', {}),
  'top-k, gathered': ('topk', {'density': DENSITY}),
  TREE: ('gtopk', {'density': DENSITY}),
  PARTNERS: ('gtopk', {'density': DENSITY, 'exchange': 'butterfly'}),
}
WORKERS = (2, 4, 8)
MOST = 0.6  # Half the rounds, plus the time that is not communication.
OVER_TREE = 'butterfly seconds over those of the tree'
FURTHER = 'seconds of a further round, tree beside butterfly'
OVER_RING = 'tree seconds over those of the dense ring'


def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
  """Times exchanges with each number of workers; quick, with two workers."""
  kept = ResultStore(folder if quick else pathlib.Path('runs/claims'))
  rows = [_row(kept, workers) for workers in WORKERS[: 1 if quick else None]]
  return claim.Finding(
    verdict(rows),
    rows,
    NOTES,
    f'gradients of {MODEL} over links of {DELAY} each way and {RATE}',
    'medians of 5 exchanges, no training',
    seeds=0,
  )


def _row(kept: ResultStore, workers: int) -> dict[str, Any]:
  sizes = [MODELS[MODEL].size]
  (timings,) = timed_schemes.ours(kept, workers, RATE, sizes, SCHEMES, DELAY)
  found: dict[str, Any] = {'model': MODEL, 'workers': workers}
  for name, timing in timings.items():
    modelled = timing.local_s + timing.link_s(LINK)
    found[f'{name}: rounds'] = timing.rounds
    found[f'{name}: seconds'] = timing.seconds
    found[f'{name}: seconds, model'] = modelled
  seconds = lambda name: found[f'{name}: seconds']
  rounds = timings[TREE].rounds - timings[PARTNERS].rounds
  return found | {
    FURTHER: (seconds(TREE) - seconds(PARTNERS)) / rounds,
    OVER_TREE: seconds(PARTNERS) / seconds(TREE),
    OVER_RING: seconds(TREE) / seconds(RING),
  }


def verdict(rows: claim.Rows) -> claim.Verdict:
  """Judges each number of workers on each of the two ratios."""
  cases: list[bool | None] = [row[OVER_TREE] <= MOST for row in rows]
  cases += [row[OVER_RING] < 1 for row in rows]
  models = [
    {'ratio': row[f'{name}: seconds, model'] / row[f'{name}: seconds']}
    for row in rows
    for name in SCHEMES
  ]
  ours = (
    f'the butterfly takes {claim.span(rows, OVER_TREE)} of the seconds of the '
    f'tree, the tree {claim.span(rows, OVER_RING)} of those of a dense ring'
  )
  workers = ', '.join(str(row['workers']) for row in rows)
  return claim.make_verdict(
    cases,
    ours,
    f'With {workers} workers {ours} (goals: at most {MOST}, and below 1). A '
    f'further round takes {claim.span(rows, FURTHER, ".3f")} s. The link '
    f'model, with {LINK.latency_s:g} s, gives {claim.span(models, "ratio")} of '
    'what was measured.',
  )


NOTES = notes.of('gtopk_latency')


def figure(rows: claim.Rows) -> Figure:
  """Measured and modelled seconds per exchange against workers."""
  found = Figure(figsize=(6, 4), layout='constrained')
  axes = found.subplots()
  workers = [row['workers'] for row in rows]
  for i, name in enumerate(SCHEMES):
    draw = lambda what, form: axes.plot(
      workers,
      [row[f'{name}: seconds{what}'] for row in rows],
      form,
      color=f'C{i}',
      label=name + what,
    )
    draw('', 'o-')
    draw(', model', ':')
  axes.set(xlabel='workers', ylabel='seconds per exchange', yscale='log')
  axes.set_xticks(workers, map(str, workers))
  found.legend(loc='outside right upper', fontsize=7, frameon=False)
  return found


if __name__ == '__main__':
  claim.run(CLAIM, measure, figure)
