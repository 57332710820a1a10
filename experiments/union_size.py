"""Can workers select entries so that the union of choices is smaller?

    python -m experiments.union_size

The server sends the entries in the union of the workers' indices to all: k if
all workers choose alike, at most P k. The target is at least 30 % fewer bytes
on the busiest link than top-k's all-gather and than the same server without a
metric, at an accuracy within 0.5 points of top-k.

Wang, Liu, Wu, 2018. Its metrics and numbers are not public; these are ours.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from experiments.framework import (
  best_rate,
  claim,
  figures,
  notes,
  points,
  seed_statistics,
  study,
  training_claim,
)
from experiments.framework.probe import Probe
from experiments.framework.result_store import ResultStore
from experiments.framework.seed_statistics import ACCURACY, PATH
from gossipjax.compressors import sparse
from gossipjax.config import resolve
from gossipjax.flatten import ravel

CLAIM = claim.Claim(
  'union_size',
  'The union of what workers select',
  'Workers can select entries such that a server has fewer bytes to send',
  'smaller, without numbers (Wang 2018); the target is ours',
)
PLAIN, GATHERED = 'plain', 'top-k, all-gather'  # Baselines of the metrics.
METRICS = {
  'popularity': {},
  'bounded': {'metric': 'popularity', 'patience': 200},
  PLAIN: {},
  'recent': {},
  'two_budgets': {},
}
JUDGED = [name for name in METRICS if name != PLAIN]
WORKLOADS = ('fashion-dense', 'fashion')
WORKERS, DENSITY = (8, 32), 0.01
NAMES = ('workload', 'workers', 'metric')
UNION, AGE = 'size of the union / k', 'mean age of residuals, steps'
OLDEST = 'age of the oldest residual, steps'
SAVED, GAIN = 'bytes saved over top-k, %', 'points over top-k'
OF_SERVER = 'bytes saved over the server without a metric, %'
FEWER, WITHIN = 30, 0.5  # Per cent of the bytes; points of accuracy.


def look_at_union() -> Probe:
  """Measures |U| / k, and how many steps residuals have waited."""

  def init(tree):
    return ravel(tree)[0].astype(jnp.int32) * 0, jnp.int32(0)

  def update(memory, tree, mean, before, after):
    del tree, mean, before
    return jnp.where(after.residual == 0, 0, memory[0] + 1), after.union

  def read(memory):
    age, union = map(np.asarray, memory)
    return {
      UNION: float(union[0] / sparse.count(DENSITY, age[0].size)),
      AGE: float(age.mean()),
      OLDEST: float(age.max()),
    }

  return Probe('union size', init, update, read)


PROBE = 'experiments.union_size:look_at_union'


def strategy(name: str) -> ConfigDict:
  """Returns `config.strategy` of a metric or of GATHERED."""
  if name == GATHERED:
    return resolve.strategy_config('topk', density=DENSITY)
  return resolve.strategy_config(
    'union_topk', **{'metric': name, 'density': DENSITY} | METRICS[name]
  )


def studies(scale: str) -> training_claim.Studies:
  """Studies by workload, P and metric; the most telling come first."""
  quick = scale == 'quick'
  first, *others = METRICS
  most = WORKERS[-1]  # Only on the first workload, with four methods.
  cells = [
    (name, workers, metric)
    for name in WORKLOADS
    for workers in ((4,) if quick else WORKERS)
    for metric in (first, GATHERED, *(() if quick else others))
    if workers != most
    or (name == WORKLOADS[0] and metric in (first, GATHERED, PLAIN, 'bounded'))
  ]
  return {cell: partial(_study, *cell, scale) for cell in cells}


def _study(name: str, workers: int, metric: str, scale: str) -> study.Study:
  probe = '' if metric == GATHERED else PROBE
  return best_rate.tune_strategy(name, workers, scale, strategy(metric), probe)


def find(
  found: training_claim.Results, coverage: claim.Rows, kept: ResultStore
) -> claim.Finding:
  """Builds a row for each metric, compared with top-k's all-gather."""
  del kept
  rows = [_row(found, cell) for cell in found]
  return claim.Finding(
    verdict(rows, coverage),
    rows,
    NOTES,
    *training_claim.evidence(rows, coverage),
    tables={'coverage': coverage},
  )


def _row(found: training_claim.Results, cell: tuple) -> dict[str, Any]:
  row = seed_statistics.row(seed_statistics.columns(NAMES, cell), found[cell])
  gathered = found.get((*cell[:2], GATHERED))
  saved = {
    column: _saved(row, found.get((*cell[:2], other)))
    for column, other in ((SAVED, GATHERED), (OF_SERVER, PLAIN))
  }
  probed = {name: row.get(name) for name in (UNION, AGE, OLDEST)}
  return (
    {name: value for name, value in row.items() if name not in probed}
    | probed
    | saved
    | seed_statistics.points_over(found[cell], gathered, 'top-k')
  )


def _saved(row: dict[str, Any], other: best_rate.Tuned | None) -> float | None:
  path = seed_statistics.row({}, other)[PATH] if other else None
  return path and 100 * (1 - row[PATH] / path)


def verdict(rows: claim.Rows, coverage: claim.Rows) -> claim.Verdict:
  """Judges for which metrics, P and workloads the target is met."""
  judged = [row for row in rows if row['metric'] in JUDGED]
  decided = claim.decided(judged, _meets)
  good = figures.distinct([row for row in judged if _meets(row)], 'metric')
  text = '; '.join(
    f'{row["metric"]} with {row["workers"]} workers on {row["workload"]} '
    f'{row[SAVED]:.0f} and {row[OF_SERVER]:.0f} %, '
    f'{seed_statistics.format_points_over(row, "top-k")}'
    for row in judged
    if None not in (row[SAVED], row[OF_SERVER])
  )
  return claim.make_verdict(
    [_meets(row) for row in judged]
    + training_claim.unfinished(studies, judged, coverage, NAMES, JUDGED),
    f'fewer bytes on the busiest link than the all-gather by '
    f'{claim.span(decided, SAVED, ".0f")} %, than the server alone by '
    f'{claim.span(decided, OF_SERVER, ".0f")} %, at '
    f'{claim.span(decided, GAIN, "+.2f")} points; it holds for '
    f'{", ".join(good) or "none"}',
    f'The target is at least {FEWER} % fewer bytes on the busiest link than '
    f"top-k's all-gather and than the same server without a metric, at an "
    f'accuracy within {WITHIN} points of top-k. Fewer by, and points gained: '
    f'{text}.',
    training_claim.doubt(coverage),
  )


def _meets(row: dict[str, Any]) -> bool | None:
  as_good = seed_statistics.gain_at_least(row, 'top-k', -WITHIN)
  saved = row[SAVED], row[OF_SERVER]
  if any(known is not None and known < FEWER for known in saved):
    return False
  return None if None in saved else as_good


NOTES = notes.of('union_size')


def figure(rows: claim.Rows, coverage: claim.Rows) -> Figure:
  """Size of the union, bytes saved and accuracy, a row per workload."""
  del coverage
  columns = {UNION: '', SAVED: '', ACCURACY: seed_statistics.DEVIATION}
  return points.by_workload(rows, 'metric', 'workers', columns)


if __name__ == '__main__':
  training_claim.run(CLAIM, studies, find, figure)
