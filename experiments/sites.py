"""Training between sites: the DiLoCo family against all-reduce.

    python -m experiments.sites

Trains language models with AdamW and image classifiers with SGD, on IID and
non-IID splits, at equal tokens. Inner and outer learning rates are tuned per
method. Reports the score, the bytes, and the modelled seconds on two links.

arXiv:2311.08105, 2501.18512, 2506.10911, 2508.15706 and 2505.23725
"""

from functools import partial
from typing import Any

from matplotlib import colormaps
from matplotlib.figure import Figure

from experiments.framework import (
  best_rate,
  claim,
  figures,
  intervals,
  margins,
  notes,
  seed_statistics,
  site_methods,
  training_claim,
)
from experiments.framework.result_store import ResultStore
from experiments.framework.seed_statistics import PATH
from experiments.framework.site_methods import METHODS, OUTER, PERIOD

CLAIM = claim.Claim(
  'sites',
  'Training between sites',
  'DiLoCo and its descendants reach the loss of all-reduce, or of DiLoCo, with '
  'a fraction of the bytes',
  'DiLoCo, streaming, 4 bits lose nothing; NoLoCo up to 4 % faster than '
  'DiLoCo; SparseLoCo, MuLoCo beat it with fewer bytes',
)
NAMES = ('workload', 'workers', 'split', 'method')
SPLITS = {
  'fashion-dense': ('iid', 'dirichlet'),
  'shakespeare-lstm': ('iid', 'contiguous'),
  'fashion': ('iid', 'dirichlet'),
  'shakespeare': ('iid', 'contiguous'),
}
WORKERS = (4, 2, 8)
LARGE = {'fashion': 4, 'shakespeare': 8}  # Workload: its only P; IID only.
# Baseline of each judged method; other methods are compared with all-reduce.
BASELINES = {
  'diloco': 'all_reduce',
  'streaming_diloco': 'diloco',
  'diloco, 4 bits': 'diloco',
  'noloco': 'diloco',
  'sparse_loco': 'diloco',
  'muloco': 'diloco',
}
MUST_NOT_LOSE = ('sparse_loco', 'muloco')  # These must lose nothing.
DENSE = 'all_reduce'
LOCAL_SGD = 'local_sgd'  # DiLoCo whose outer step is the mean, at equal bytes.
BASELINE = 'what it is compared with'
FEWER = 0.95  # At most this share of the baseline's bytes is fewer.
GAIN, SHARE = f'gain over {BASELINE}', f'bytes over those of {BASELINE}'
LINKS = {
  link: f'communication seconds on {link} (model)' for link in ('wan', '1gbe')
}


def studies(scale: str) -> training_claim.Studies:
  """Studies by workload, P, split and method; quick and judged ones come first.

  Large workloads (minutes a training) have only judged methods and baselines.
  """
  judged = DENSE, *BASELINES, LOCAL_SGD
  cells = [
    (name, workers, splits[i], method)
    for workers in WORKERS
    for i in range(2)
    for name, splits in SPLITS.items()
    for method in sorted(METHODS, key=lambda m: m not in judged)
    if method in judged or (workers == WORKERS[0] and name not in LARGE)
    if name not in LARGE or (workers == LARGE[name] and splits[i] == 'iid')
  ]
  chosen = cells[: 2 if scale == 'quick' else None]
  return {cell: partial(site_methods.tuned, *cell, scale) for cell in chosen}


def find(
  found: training_claim.Results, coverage: claim.Rows, kept: ResultStore
) -> claim.Finding:
  """Builds a row for each method, with its gain over its baseline."""
  del kept
  begun = {cell[:-1] for cell in found if cell[-1] != DENSE}
  rows = [_row(found, cell) for cell in found if cell[:-1] in begun]
  return claim.Finding(
    verdict(rows, coverage),
    rows,
    NOTES,
    *training_claim.evidence(rows, coverage),
    tables={'coverage': coverage},
  )


def _row(found: training_claim.Results, cell: tuple) -> dict[str, Any]:
  tuned, outer, inside, by_outer = found[cell]
  other = BASELINES.get(cell[-1], DENSE)
  row = seed_statistics.row(seed_statistics.columns(NAMES, cell), tuned)
  others = {
    name: found.get((*cell[:-1], method))
    for name, method in (
      (BASELINE, other),
      (DENSE, DENSE),
      (LOCAL_SGD, LOCAL_SGD),
    )
  }
  base = others[BASELINE]
  path = base and seed_statistics.row({}, base.tuned)[PATH]
  runs = [run for run in tuned.runs if not run['diverged']]
  seconds = {
    column: claim.ratio(sum(run['comm_s'][link] for run in runs), len(runs))
    for link, column in LINKS.items()
  }
  row |= {
    **seconds,
    'outer rate': outer,
    'best outer rate is inside': inside,
    'validation score by outer rate': seed_statistics.curve(by_outer),
    'compared with': other,
    SHARE: claim.ratio(row[PATH], path),
  }
  for name, one in others.items():
    row |= margins.gain(found[cell].sure, one and one.sure, cell[0], name)
  return row


def holds(row: dict[str, Any]) -> bool | None:
  """Whether a method matches its baseline (MUST_NOT_LOSE: loses nothing); None
  if seeds cannot tell, or if DiLoCo may have been tuned too little: it is worse
  than LOCAL_SGD, its special case, or fails while LOCAL_SGD is not trained."""
  good = margins.is_as_good(
    row, BASELINE, lost=row['method'] not in MUST_NOT_LOSE
  )
  unsure = good is False and not intervals.known(row[f'gain over {LOCAL_SGD}'])
  if row['method'] == 'diloco' and (unsure or margins.is_worse(row, LOCAL_SGD)):
    return None
  return good


def verdict(rows: claim.Rows, coverage: claim.Rows) -> claim.Verdict:
  """Judges in which cells a method is as good as its baseline."""
  judged = [row for row in rows if row['method'] in BASELINES]
  good = [row for row in judged if holds(row)]
  iid = sum(row['split'] == 'iid' for row in good)
  fewer = sum(row[SHARE] <= FEWER for row in good)
  dense = sum(margins.is_as_good(row, DENSE) is True for row in good)
  where = lambda key, value: [row for row in judged if row[key] == value]
  text = '; '.join(
    f'{name} against {BASELINES[name]}: {_sentence(where("method", name))}'
    for name in figures.distinct(judged, 'method')
  )
  short = '; '.join(
    f'over {other} {_sentence(where("compared with", other))}'
    for other in figures.distinct(judged, 'compared with')
  )
  less = f'; {fewer} of {len(good)} with fewer bytes' * bool(good)
  plain = margins.span(where('method', 'diloco'), LOCAL_SGD)
  return claim.make_verdict(
    [holds(row) for row in judged]
    + training_claim.unfinished(studies, judged, coverage, NAMES, BASELINES),
    (short + less if len(short + less) <= 160 else short) or 'nothing yet',
    f'A method holds where it loses at most {margins.POINTS.margin} points, of '
    f'text {margins.NATS.margin} nats; {" and ".join(MUST_NOT_LOSE)} where '
    f'they lose nothing. {text or "Nothing is trained yet"}. Of {len(good)} '
    f'that hold {iid} are IID, {fewer} send fewer bytes than what they compare '
    f'with, and {dense} are also as good as all-reduce. Over local SGD, at '
    f'equal bytes, DiLoCo gains {plain or "what is not known yet"}.',
    training_claim.doubt(coverage),
  )


def _sentence(rows: claim.Rows) -> str:
  """Describes the gains of decided rows, and how many of them hold."""
  cases = [case for case in map(holds, rows) if case is not None]
  gains = margins.span(claim.decided(rows, holds), BASELINE)
  return f'{gains} ({sum(cases)} of {len(cases)} hold)'


MORE_SEEDS = ', '.join(f'{w} {n}' for w, n in site_methods.SEEDS.items())
NOTES = notes.of(
  'sites',
  period=PERIOD,
  few=training_claim.EXCHANGES,
  sparse=site_methods.SPARSE,
  first=site_methods.FIRST,
  outer=OUTER,
  inner_trials=best_rate.TRIALS,
  outer_trials=site_methods.OUTER_TRIALS,
  seeds=best_rate.SEEDS,
  more=MORE_SEEDS,
  most=site_methods.ALL_REDUCE_WORKERS,
  large=' and '.join(LARGE),
)


def figure(rows: claim.Rows, coverage: claim.Rows) -> Figure:
  """Score against bytes and seconds, a row for each workload and split."""
  del coverage
  places = list(dict.fromkeys((r['workload'], r['split']) for r in rows))
  keys = PATH, *LINKS.values()
  found = Figure(figsize=(14, 0.4 + 3.4 * len(places)), layout='constrained')
  panels = found.subplots(len(places) or 1, len(keys), squeeze=False)
  marks = dict(zip(sorted(WORKERS), 'vos', strict=True))
  colors = colormaps['tab20'].colors
  for line, (name, split) in zip(panels, places, strict=False):
    score = margins.score_metric(name)
    group = [r for r in rows if (r['workload'], r['split']) == (name, split)]
    for axes, x in zip(line, keys, strict=True):
      for row in group:
        color = colors[[*METHODS].index(row['method'])]
        mark = marks[row['workers']]
        axes.plot(row[x], row[score.column], mark, color=color)
      axes.set(xlabel=x, ylabel=score.column, xscale='log')
      axes.yaxis.set_inverted(score.sign < 0)  # Better is higher up.
    line[0].set_title(f'{name}, {split}')
  for method, color in zip(METHODS, colors, strict=False):
    panels[0][0].plot([], [], 'o', color=color, label=method)
  for workers, mark in marks.items():
    panels[0][0].plot([], [], mark, color='0.5', label=f'P = {workers}')
  figures.legend(found, *panels.flat)
  return found


if __name__ == '__main__':
  training_claim.run(CLAIM, studies, find, figure)
