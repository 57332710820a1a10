"""Hylo, a codec for each kind of layer: its accuracy, speed, and limit.

    python -m experiments.hylo

Published: accuracy within 0.5 points of dense; up to 1.31 times as fast as
others. Controls are MXNet's 2-bit codec for the whole network (through the
same sharded server), and top-k and DGC with as many bytes as Hylo. The limit is
the growth of a residual that a 2-bit code cannot empty.

J. Peng, 2021. Not public; this is our reading of its summary.
"""

from functools import partial
from typing import Any

from matplotlib.figure import Figure
from ml_collections import ConfigDict

from experiments.framework import (
  best_rate,
  claim,
  figures,
  matched,
  notes,
  residual_growth,
  seed_statistics,
  step_times,
  study,
  training_claim,
  workloads,
)
from experiments.framework.claim import Rows
from experiments.framework.result_store import ResultStore
from experiments.framework.seed_statistics import PATH
from experiments.framework.step_times import CLAIMED, EVEN, LINK
from gossipjax.config import resolve

CLAIM = claim.Claim(
  'hylo',
  'Hylo',
  'Hylo is as accurate as dense, and at least 1.05 times as fast',
  'less than 0.5 % of accuracy lost, up to 1.31 times as fast as others (Peng '
  '2021)',
)
WITHIN = 0.5  # Points of accuracy, as claimed.
LEAST = seed_statistics.FASTER
# Ours: each changes one kind of layer, so it also tells which half costs.
OURS = {'hylo-mean': {'level': 'mean'}, 'hylo-slice': {'unit': 'slice'}}
# Tried only where each of them gains accuracy.
BOTH = {'hylo-both': OURS['hylo-mean'] | OURS['hylo-slice']}
METHODS = ('hylo', 'dense', *OURS, 'two-bit', 'top-k', 'dgc')
# Networks whose dense layers are large enough for the 2-bit half. In cifar's
# network these have 0.4 % of the parameters, so cifar-vgg stands for CIFAR-10.
WORKLOADS, WORKERS = ('fashion', 'cifar-vgg'), 8
JUDGED = METHODS[:2]
# Top-k tells whether the few bytes or the codec costs accuracy.
METHODS_BY_WORKLOAD = {
  WORKLOADS[0]: METHODS,
  WORKLOADS[1]: (*JUDGED, 'top-k', *OURS, *BOTH),
}
THRESHOLDS = tuple(float(f'{10 ** (i / 2):.3g}') for i in range(-7, 0))
NAMES = ('workload', 'method')


def studies(scale: str) -> training_claim.Studies:
  """Studies by workload and method; the most telling come first."""
  quick = scale == 'quick'
  cells = [
    (name, method)
    for name in WORKLOADS[: 1 if quick else None]
    for method in (JUDGED if quick else METHODS_BY_WORKLOAD[name])
  ]
  return {cell: partial(_study, *cell, scale) for cell in cells}


def _study(name: str, method: str, scale: str) -> study.Study:
  """A method at its best rate, after a search for its other argument."""
  strategy = yield from _strategy(name, method, scale)
  return (yield from best_rate.tune_strategy(name, WORKERS, scale, strategy))


def _strategy(name: str, method: str, scale: str) -> study.Study:
  """The config of a method; runs find its threshold or density."""
  config_of = lambda strategy: workloads.config(name, WORKERS, scale, strategy)
  make = resolve.strategy_config
  if method == 'two-bit':
    configs = _two_bits(name, scale)
    return _two_bit((yield from matched.best_value(name, configs)))
  if method in ('top-k', 'dgc'):
    sparse = lambda density: make(
      method.replace('-', ''), density=min(density, 1.0)
    )
    sent = yield from matched.bytes_of(name, config_of(make('hylo')))
    density, _ = yield from matched.value_for(
      name, lambda density: config_of(sparse(density)), 0.01, sent, 1.0
    )
    return sparse(density)
  if method == 'dense':
    return make('all_reduce')
  return make('hylo', **(OURS | BOTH).get(method, {}))


def _two_bits(name: str, scale: str) -> dict[float, ConfigDict]:
  config_at = lambda t: workloads.config(name, WORKERS, scale, _two_bit(t))
  return {t: config_at(t) for t in THRESHOLDS}


def _two_bit(threshold: float) -> ConfigDict:
  return resolve.strategy_config(
    'double_squeeze',
    push={'name': 'two_bit', 'threshold': threshold},
    pull={'name': 'none'},
  )


def find(
  found: training_claim.Results, coverage: Rows, kept: ResultStore
) -> claim.Finding:
  """Builds a row per method, compared with dense, with its step seconds."""
  # Step seconds are measured here; comparing them takes both JUDGED methods.
  is_judged = lambda name: all((name, method) in found for method in JUDGED)
  both = {name for name, _ in found if is_judged(name)}
  scale = coverage[0]['scale']
  rows = [_row(found, cell, scale, kept) for cell in found if cell[0] in both]
  rows = [row | step_times.on_links(rows, row) for row in rows]
  growth = residual_growth.table(kept) if rows else []
  tried = _thresholds(kept, scale) if rows else []
  return claim.Finding(
    verdict(rows, tried, growth, coverage),
    rows,
    NOTES,
    *training_claim.evidence(rows, coverage),
    tables={'thresholds': tried, 'growth': growth, 'coverage': coverage},
  )


def _thresholds(kept: ResultStore, scale: str) -> Rows:
  """The validation scores among which the threshold of two-bit was chosen."""
  configs = _two_bits(WORKLOADS[0], scale)
  scores = matched.scores(WORKLOADS[0], configs, kept)
  column = 'threshold of two-bit'
  return [{column: t, 'validation score': scores[t]} for t in scores]


def _row(
  found: training_claim.Results,
  cell: tuple[str, str],
  scale: str,
  kept: ResultStore,
) -> dict[str, Any]:
  """The scores, their difference to dense, and the parts of step seconds."""
  name, method = cell
  row = seed_statistics.row(seed_statistics.columns(NAMES, cell), found[cell])
  dense = found.get((name, 'dense'))
  # Timed at the trained density, on which top-k's seconds depend.
  strategy = study.replay(_strategy(name, method, scale), kept).found
  seconds = step_times.of(name, WORKERS, strategy, kept, scale)
  return (
    row | seed_statistics.points_over(found[cell], dense, 'dense') | seconds
  )


def verdict(
  rows: Rows, thresholds: Rows, growth: Rows, coverage: Rows
) -> claim.Verdict:
  """Judges accuracy and speed per workload; also tells the codec's limit."""
  del thresholds
  met, texts, short = [], [], []
  for row in (row for row in rows if row['method'] == 'hylo'):
    as_good = seed_statistics.gain_at_least(row, 'dense', -WITHIN)
    met.append(claim.all_hold((as_good, step_times.is_faster(row, LEAST))))
    points = seed_statistics.format_points_over(row, 'dense')
    short.append(f'{row["workload"]} {points}, {step_times.pace(row)}')
    rate = f'below {row[EVEN]:.3g} B/s' if row[EVEN] else 'at no rate'
    below = f'{CLAIMED} times as fast {rate}'
    texts.append(
      f'On {row["workload"]} Hylo is {points} points against dense (allowed: '
      f'{-WITHIN}), times as fast on {LINK}: {step_times.pace(row)}, asked for '
      f'{LEAST}, and {below}.{_others(rows, row)}'
    )
  texts.append(
    residual_growth.sentence(growth) if growth else 'Nothing is trained yet.'
  )
  met += training_claim.not_begun(rows, coverage)
  ours = f'points against dense, times as fast on {LINK}: {"; ".join(short)}'
  return claim.make_verdict(
    met, ours, ' '.join(texts), training_claim.doubt(coverage)
  )


def _others(rows: Rows, hylo: dict[str, Any]) -> str:
  """Tells of top-k and of the forms of OURS, if they send as many bytes."""
  labels = {'top-k': 'Top-k with its bytes'}
  labels |= {name: name for name in (*OURS, *BOTH)}
  points = partial(seed_statistics.format_points_over, other='dense')
  near = lambda row: abs(row[PATH] / hylo[PATH] - 1) <= matched.WITHIN
  return ''.join(
    f' {labels[row["method"]]}: {points(row)}, {step_times.pace(row)}.'
    for row in rows
    if row['workload'] == hylo['workload']
    and row['method'] in labels
    and near(row)
  )


NOTES = notes.of('hylo')


def figure(
  rows: Rows, thresholds: Rows, growth: Rows, coverage: Rows
) -> Figure:
  """Accuracy against bytes on each workload, and residuals by threshold."""
  del thresholds, coverage
  found = Figure(figsize=(14, 4), layout='constrained')
  names = figures.distinct(rows, 'workload')
  *panels, last = found.subplots(1, len(names) + 1)
  figures.accuracies(panels, rows, 'workload', PATH, 'method')
  for axes in panels:
    axes.set_xscale('log')
  named = lambda r: f'{r["decode level"]}, mean gradient {r["mean gradient"]:g}'
  growth = [row | {'by': named(row)} for row in growth]
  x = 'threshold in mean magnitudes'
  figures.lines(last, growth, x, 'residual', 'by')
  for i, line in enumerate(last.lines):  # Colors stand for methods.
    line.set(color=str(i // 2 / 4), linestyle='--' if i % 2 else '-')
  last.set(title='residual', xlabel=x, ylabel='in gradients', yscale='log')
  last.legend(frameon=False, fontsize=8)
  figures.legend(found, *panels)
  return found


if __name__ == '__main__':
  training_claim.run(CLAIM, studies, find, figure)
