"""Which strategies are on the Pareto front of score against bytes?

    python -m experiments.fronts

Trains strategies with 8 workers, each at its best learning rate: one seed of
each, two more of those on the front, and five more of those that may be as good
as all-reduce with a tenth of its bytes. A strategy is on the front if it has
three seeds, and no other strategy with three seeds scores more with fewer bytes
on the busiest link.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.framework import (
  best_rate,
  claim,
  figures,
  front,
  margins,
  notes,
  points,
  study,
  training_claim,
)
from experiments.framework.front import DENSE
from experiments.framework.result_store import ResultStore
from experiments.framework.seed_statistics import PATH, known
from gossipjax.config import resolve

CLAIM = claim.Claim(
  'fronts',
  'The front of score against bytes',
  'No method beats all-reduce by 0.5 points, and some method scores within 0.5 '
  'points of it with a tenth of the bytes',
  'nothing; the question is that of users',
)
# Used where a strategy's defaults would not test it here, such as a period that
# leaves fewer than a hundred exchanges.
ARGUMENTS: Mapping[str, dict[str, Any]] = {
  'gtopk': {'density': 0.01, 'conserve': True},
  'sparse_loco': {'period': 10},
  'diloco': {'period': 10},
  'streaming_diloco': {'period': 30},
  'noloco': {'period': 30},
  'des_loc': {'period': 30, 'first_period': 90, 'second_period': 180},
}
SMALL = 'fashion-dense', 'shakespeare-lstm'
# Trainings on large workloads take minutes. Only plain methods run there, and
# those that were on a smaller workload's front when these runs began.
PLAIN = 'all_reduce', 'gossip', 'topk', 'local_sgd', 'gtopk', 'diloco'
BEST = 'power_sgd', 'ok_topk', 'sparse_loco', 'slowmo', 'push_sum'
LARGE = dict.fromkeys(('fashion', 'shakespeare'), (*PLAIN, *BEST)) | {
  'cifar-vgg': (*PLAIN[:3], *BEST[:3])  # The last three: the front of fashion.
}
WORKERS = 8
ON_GPUS = ('cifar', 'shakespeare')
EVERY = 'fashion-dense'  # Workload on which all strategies have all seeds.
FRONT = 'on the front'
BOTH = 'all-reduce and those on the front'
CHEAP = 'all-reduce and candidates with a tenth of its bytes'
FURTHER = BOTH, CHEAP


def studies(scale: str) -> training_claim.Studies:
  """Studies by workload and strategy, then more seeds of some strategies."""
  quick = scale == 'quick'
  found: dict[tuple, Any] = {}
  places = ON_GPUS if scale == 'gpu' else (*SMALL, *LARGE)
  for name in places[: 1 if quick else None]:
    names = LARGE.get(name) if scale == 'cpu' else None
    names = PLAIN[:2] if quick else names or resolve.STRATEGIES
    methods = {s: partial(method, name, s, scale) for s in names}
    seeds = best_rate.SEEDS if name == EVERY else 1
    found |= {(name, s): partial(of, seeds) for s, of in methods.items()}
    for cell, choose, seeds in (
      (BOTH, front.leaders, best_rate.SEEDS),
      (CHEAP, front.candidates, best_rate.MORE),
    ):
      found[name, cell] = partial(
        best_rate.further_seeds, methods, partial(choose, name), seeds
      )
  return found


def method(name: str, strategy: str, scale: str, seeds: int) -> study.Study:
  """Returns the study of a strategy at its best learning rate."""
  config = resolve.strategy_config(strategy, **ARGUMENTS.get(strategy, {}))
  return best_rate.tune_strategy(name, WORKERS, scale, config, seeds=seeds)


def find(
  found: training_claim.Results, coverage: claim.Rows, kept: ResultStore
) -> claim.Finding:
  """Builds a row for each strategy, with all seeds that are kept."""
  scale = coverage[0]['scale']
  begun = {cell[0] for cell in found if cell[1] not in (*FURTHER, DENSE)}
  best = {
    cell: best_rate.with_all_seeds(partial(method, *cell, scale), one, kept)
    for cell, one in found.items()
    if cell[0] in begun and cell[1] not in FURTHER
  }
  rows = [front.row(cell, one) for cell, one in best.items()]
  for name in figures.distinct(rows, 'workload'):
    mine = [row for row in rows if row['workload'] == name]
    most = max(r['seeds'] for r in mine)
    complete = [r for r in mine if r['seeds'] == most]
    for row in mine:
      row[FRONT] = row in complete and front.on_the_front(row, complete)
  for row in rows:
    name, mine = row['workload'], best[row['workload'], row['strategy']]
    dense = best.get((name, DENSE)) if row['seeds'] > 1 else None
    row |= margins.gain(mine, dense, name, DENSE)
  candidates = [
    front.candidate(name, strategy, more)
    for (name, cell), more in found.items()
    for strategy in (more if cell == CHEAP else ())
    if strategy != DENSE
  ]
  return claim.Finding(
    verdict(rows, coverage, candidates),
    rows,
    NOTES,
    *training_claim.evidence(rows, coverage, whole=True),
    tables={'coverage': coverage, 'candidates': candidates},
  )


def verdict(
  rows: claim.Rows, coverage: claim.Rows, candidates: claim.Rows
) -> claim.Verdict:
  """Judges whether a tenth of the bytes is enough, and tells each front."""
  cases, texts, short = [], [], []
  for name in figures.distinct(rows, 'workload'):
    part = [row for row in rows if row['workload'] == name]
    best = sorted((r for r in part if r[FRONT]), key=lambda row: row[PATH])
    if not best:
      continue
    cheap = front.cheap(part)
    as_good = lambda row, n=len(cheap): margins.is_as_good(row, DENSE, tests=n)
    tried = [row for row in candidates if row['workload'] == name]
    good = [row['strategy'] for row in tried if as_good(row)]
    complete = training_claim.is_complete(coverage, name)
    fails = lambda row: margins.is_as_good(row, DENSE) is False
    few = [*tried, *(row for row in best if row in cheap)]
    unsure = not all(map(fails, few))
    enough = bool(good) or (None if unsure or not complete else False)
    ahead = margins.leads(best[-1], DENSE)  # False for itself.
    enough = claim.all_hold((enough, None if ahead is None else not ahead))
    cases.append(enough if complete else None)
    names = ', '.join(row['strategy'] for row in best)
    names = names if complete else 'not known yet'
    shown = ', '.join(good) or ('none' if enough is False else 'undecided')
    texts.append(
      f'On {name}, of {len(part)} strategies, these are on the front, from the '
      f'fewest bytes to the most: {names}. As good as all-reduce with a tenth '
      f'of its bytes: {shown}.'
    )
    short.append(f'{name}: {shown}')
  cases += training_claim.not_begun(rows, coverage)
  return claim.make_verdict(
    cases,
    f'as good with a tenth of the bytes, {"; ".join(short) or "unknown"}'[:160],
    ' '.join(texts) or 'No strategy is trained yet.',
    training_claim.doubt(coverage),
  )


NOTES = notes.of(
  'fronts',
  arguments='; '.join(f'{name}: {given}' for name, given in ARGUMENTS.items()),
  every=EVERY,
  points=margins.POINTS.margin,
  nats=margins.NATS.margin,
  candidates=front.CANDIDATES,
  more=best_rate.MORE,
  large=', '.join(LARGE),
)


def figure(
  rows: claim.Rows, coverage: claim.Rows, candidates: claim.Rows
) -> Figure:
  """Score against bytes; a line joins the front, most points have names."""
  del coverage, candidates
  names = figures.distinct(rows, 'workload')
  found = Figure(figsize=(10, 5.5 * len(names)), layout='constrained')
  panels = found.subplots(len(names), 1, squeeze=False)[:, 0]
  named = [_draw(*each, rows) for each in zip(panels, names, strict=True)]
  figures.units_of_axes(found)
  for axes, by_name in zip(panels, named, strict=True):
    points.write_names(axes, by_name)
  return found


def _draw(
  axes: Axes, workload: str, rows: claim.Rows
) -> dict[str, tuple[float, float]]:
  """Draws a workload; returns its points by name, those of the front first."""
  y, sign, *_ = margins.score_metric(workload)
  rows = [r for r in rows if r['workload'] == workload and known(r[y])]
  front = sorted((r for r in rows if r[FRONT]), key=lambda row: row[PATH])
  scores = [sign * row[y] for row in front] or [0.0]
  edge = min(scores) - 1.5 * (max(scores) - min(scores))
  axes.plot([r[PATH] for r in front], [r[y] for r in front], 'C1-', zorder=0)
  named = {}
  rows.sort(key=lambda r: (not r[FRONT], r['strategy'] != 'all_reduce'))
  for row in rows:
    far = len(front) > 1 and sign * row[y] < edge  # Then it is at the edge.
    point = row[PATH], sign * edge if far else row[y]
    axes.plot(*point, 'C1o' if row[FRONT] else 'C0v' if far else 'C0.')
    named[row['strategy'] + f' ({row[y]:.1f})' * far] = point
  axes.set(title=workload, xlabel=PATH, ylabel=y, xscale='log')
  axes.yaxis.set_inverted(sign < 0)  # Better is higher up.
  axes.margins(0.08)
  return named


if __name__ == '__main__':
  training_claim.run(CLAIM, studies, find, figure)
