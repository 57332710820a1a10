"""Can workers select so that the union of their choices is smaller?

    python -m experiments.union_size

The server sends the union of the workers' indices to all: between k entries,
if all chose alike, and P k. Target: a union at least 30 % smaller than that of
plain top-k, at an accuracy within 0.5 points.

Wang, Liu, Wu, 2018; its metrics and numbers are not public, these are ours.
"""

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from experiments.framework import claim, kept_runs, seed_statistics, workloads
from experiments.framework.kept_runs import Evidence, Watch
from gossipjax.compressors import sparse
from gossipjax.config import resolve

METRICS = {
  'plain': {},
  'popularity': {},
  'recent': {},
  'two_budgets': {},
  'bounded': {'metric': 'popularity', 'patience': 200},
}
TASK, WORKERS, DENSITY, SEEDS = 'fashion_mnist', (8, 16, 32), 0.01, 3
SMALLER, WITHIN = 0.30, 0.5  # Part of the union; points of accuracy.


def look_at_union() -> Watch:
  """Watches |U| / k, and how many steps residuals have waited."""

  def init(tree):
    return ravel_pytree(tree)[0].astype(jnp.int32) * 0, jnp.int32(0)

  def look(seen, tree, mean, before, after):
    del tree, mean, before
    return jnp.where(after.residual == 0, 0, seen[0] + 1), after.union

  def tell(seen):
    age, union = map(np.asarray, seen)
    return {
      'union / k': float(union[0] / sparse.count(DENSITY, age[0].size)),
      'mean age': float(age.mean()),
      'oldest': float(age.max()),
    }

  return Watch(init, look, tell)


def strategy(name: str) -> ConfigDict:
  """`config.strategy`."""
  return resolve.strategy_config(
    'union_topk', **{'metric': name, 'density': DENSITY} | METRICS[name]
  )


def measure(quick: bool, found: Evidence) -> claim.Finding:
  """All metrics; quick, two on 8 workers."""
  strategies = {
    name: strategy(name) for name in list(METRICS)[: 2 if quick else None]
  }
  here = lambda workers: workloads.compared(
    workloads.config(TASK, workers, quick), strategies
  )
  rates = found.rates(here(WORKERS[0]), workloads.RATES[: 2 if quick else None])
  wanted = {
    (workers, name, seed): run
    for workers in (WORKERS[:1] if quick else WORKERS)
    for name, seed, run in workloads.runs(
      here(workers), rates, 1 if quick else SEEDS
    )
  }
  wanted = {key: wanted[key] for key in sorted(wanted, key=lambda k: k[-1])}
  runs = found.collect(wanted, lambda key: look_at_union())
  rows = [
    _beside(runs, row) for row in seed_statistics.rows(runs, ('P', 'metric'))
  ]
  return claim.Finding(
    rows,
    _figure(rows),
    verdict(rows),
    seed_statistics.extent(runs, len(wanted)) + NOTES + workloads.NOTE,
  )


def _beside(runs: seed_statistics.Runs, row: dict) -> dict:
  """The row, and how it compares with plain top-k."""
  unions = {
    name: np.mean(
      [
        line['union / k']
        for key, run in runs.items()
        if key[:2] == (row['P'], name)
        for line in run['told'][len(run['told']) // 2 :]
      ]
    )
    for name in (row['metric'], 'plain')
  }
  gain, error = seed_statistics.difference(
    runs, (row['P'], row['metric']), (row['P'], 'plain')
  )
  smaller = 1 - unions[row['metric']] / unions['plain']
  return row | {
    'smaller %': 100 * smaller,
    'points gained': gain,
    'error': error,
    'target met': bool(smaller >= SMALLER and gain >= -WITHIN),
  }


def verdict(rows: list[dict]) -> str:
  """For which metrics and P the target is met."""
  others = [row for row in rows if row['metric'] != 'plain']
  each = '; '.join(
    f'{row["metric"]} at P = {row["P"]} {row["smaller %"]:.0f} %, '
    f'{seed_statistics.told(row["points gained"], row["error"])}'
    f'{" (met)" if row["target met"] else ""}'
    for row in others
  )
  word = claim.word(sum(row['target met'] for row in others), len(others))
  return (
    f'{word}: the target is a union at least {100 * SMALLER:.0f} % smaller '
    f'than with plain top-k at an accuracy within {WITHIN} points. Smaller '
    f'by, and points gained: {each}.'
  )


NOTES = """
`union / k` between 1 and P, `mean age` and `oldest`: steps since an entry of a
worker's residual was last zero, over all entries; these three are means over
every tenth step of the second half, so that an oldest of 155 means that some
entry was never sent. `points gained` over plain top-k, paired by seed, `error`
its standard error. Rates were chosen at P = 8. Density 0.01; popularity with
lambda 2 and gamma 0.9, recent with gamma 0.9, two_budgets with c = 3, bounded
is popularity with a patience of 200 steps, for which half of the budget goes
round all entries in turn. Our reading of metrics that were not published.
"""


def _figure(rows: list[dict]) -> Figure:
  figure = Figure(figsize=(12, 3.4), layout='constrained')
  panels = figure.subplots(1, 3)
  fields = 'union / k', 'accuracy %', 'mean age'
  for axes, field in zip(panels, fields, strict=True):
    for i, name in enumerate(dict.fromkeys(row['metric'] for row in rows)):
      mine = [row for row in rows if row['metric'] == name]
      axes.plot(
        [row['P'] for row in mine],
        [float(row[field]) for row in mine],
        '.-',
        color=f'C{i}',
        label=name,
      )
    axes.set(xlabel='workers', ylabel=field)
    axes.set_xscale('log', base=2)
  figure.legend(
    *panels[0].get_legend_handles_labels(),
    frameon=False,
    loc='outside right upper',
  )
  return figure


if __name__ == '__main__':
  kept_runs.run(
    'union_size',
    'The union of what workers select',
    measure,
    devices=max(WORKERS),
  )
