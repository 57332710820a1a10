"""gTop-k loses gradient mass: how much, and does it matter for accuracy?

    python -m experiments.gtopk_mass

An entry that one subtree of the merge drops while its index survives through
another is neither applied nor remembered. Both rules send the same bytes; the
conserving one gives such parts to the merging worker's memory.

Shi et al., 2019. arXiv:1901.04359; the loss and its repair are ours.
"""

import itertools

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from experiments.framework import claim, kept_runs, seed_statistics, workloads
from experiments.framework.kept_runs import Evidence, Watch
from gossipjax.config import defaults, resolve

METHODS = {
  'dense': ('all_reduce', {}),
  'top-k': ('topk', {}),
  'exact': ('exact_global_topk', {}),
  'published': ('gtopk', {'conserve': False}),
  'conserving': ('gtopk', {'conserve': True}),
}
WORKERS, DENSITIES, SEEDS = (4, 8, 16, 32), (0.001, 0.01), 3
TUNED_AT = 8  # Workers.
# Dense has no density of its own.
TOTAL = (
  len(workloads.TWO)
  * len(WORKERS)
  * SEEDS
  * (1 + (len(METHODS) - 1) * len(DENSITIES))
)


def weigh() -> Watch:
  """Watches what is neither applied nor remembered: share of what is applied.

  lost = sum_i (g_i + e_i) - sum_i e_i' - P mean
  """

  def look(seen, tree, mean, before, after):
    del seen
    flat, applied = ravel_pytree(tree)[0], ravel_pytree(mean)[0]
    return flat + before.residual - after.residual - applied, applied

  def tell(seen):
    gaps, applied = (np.asarray(x, np.float64) for x in seen)
    lost = np.abs(gaps.sum(axis=0)).sum()
    return {'lost': lost / np.abs(applied.sum(axis=0)).sum()}

  def init(tree):
    nothing = jnp.zeros_like(ravel_pytree(tree)[0])
    return nothing, nothing

  return Watch(init, look, tell)


def method(name: str, density: float) -> ConfigDict:
  """`config.strategy`."""
  strategy, given = METHODS[name]
  if name != 'dense':
    given = given | {'density': density}
  return resolve.strategy_config(strategy, **given)


def tuned(
  task: str, density: float, found: Evidence, quick: bool
) -> dict[str, float]:
  """The best learning rate of each method; dense has no density of its own."""
  config = workloads.config(task, WORKERS[0] if quick else TUNED_AT, quick)
  config.variants = defaults.variants(
    **{
      name: method(name, density)
      for name in METHODS
      if name != 'dense' or density == DENSITIES[0]
    }
  )
  return found.rates(config, workloads.RATES[: 2 if quick else None])


def cells(task: str, found: Evidence, quick: bool) -> dict[tuple, ConfigDict]:
  """By task, P, density, method and seed; the most telling come first."""
  wanted = {}
  for density in DENSITIES[: 1 if quick else None]:
    if wanted and not found.again():
      break
    rates = tuned(task, density, found, quick)
    for workers, name, seed in itertools.product(
      WORKERS[: 1 if quick else None], rates, range(1 if quick else SEEDS)
    ):
      config = workloads.config(task, workers, quick)
      config.strategy, config.seed = method(name, density), seed
      config.optimizer.learning_rate = rates[name]
      wanted[
        task, workers, None if name == 'dense' else density, name, seed
      ] = config
  first = lambda key: (key[-1] > 0, key[1] != WORKERS[-1], key[-1])
  return {key: wanted[key] for key in sorted(wanted, key=first)}


def measure(quick: bool, found: Evidence) -> claim.Finding:
  """One seed of each network, then the others; quick, one on 4 workers."""
  wanted, tasks = {}, workloads.TWO[: 1 if quick else None]
  watch = lambda key: None if key[3] == 'dense' else weigh()
  for task in tasks:
    if wanted and not found.again():
      break
    mine = cells(task, found, quick)
    found.collect({key: mine[key] for key in mine if key[-1] == 0}, watch)
    wanted |= mine
  runs = found.collect(wanted, watch)
  rows = sorted(
    seed_statistics.rows(runs, ('task', 'P', 'density', 'method')),
    key=lambda row: (tasks.index(row['task']), row['P'], row['density'] or 0),
  )
  return claim.Finding(
    rows,
    _figure(rows),
    verdict(runs, rows),
    seed_statistics.extent(runs, len(mine) if quick else TOTAL)
    + NOTES
    + workloads.NOTE,
  )


def verdict(runs: seed_statistics.Runs, rows: list[dict]) -> str:
  """Whether accuracy suffers from the mass that is lost; and how much is."""
  lost = lambda name, p: [
    100 * row['lost'] for row in rows if (row['method'], row['P']) == (name, p)
  ]
  sizes = sorted({row['P'] for row in rows if lost('published', row['P'])})
  shares = ', '.join(
    f'{min(lost("published", p)):.1f} to {max(lost("published", p)):.1f} % '
    f'at P = {p}'
    for p in sizes
  )
  kept = max(share for p in sizes for share in lost('conserving', p) or [0])
  gains = {
    cell[:3]: seed_statistics.difference(
      runs, (*cell[:3], 'conserving'), (*cell[:3], 'published')
    )
    for cell in runs
    if cell[1] == sizes[-1] and cell[2]
  }
  sure = [gain / error for gain, error in gains.values() if error > 0]
  each = '; '.join(
    f'{task} at density {density} '
    f'{seed_statistics.told(*gains[task, p, density])}'
    for task, p, density in gains
  )
  better, worse = sum(g > 2 for g in sure), sum(g < -2 for g in sure)
  return (
    f'{claim.word(better, len(sure))}: the published merge loses {shares} of '
    f'the applied mass, the conserving one at most {kept:.2g} %. Points of '
    f'held-out accuracy gained by conserving at P = {sizes[-1]}: {each}. Of '
    f'{len(sure)} with several seeds {better} are gains beyond two standard '
    f'errors, {worse} losses.'
  )


NOTES = """
`lost`: sum over entries of what is neither applied nor in a residual, as a
share of the same sum of what is applied, every tenth step of the second half.
Rates were chosen for each density at P = 8 and are used at every P.
"""


def _figure(rows: list[dict]) -> Figure:
  tasks = list(dict.fromkeys(row['task'] for row in rows))
  figure = Figure(figsize=(12, 3.2 * len(tasks)), layout='constrained')
  panels = figure.subplots(len(tasks), 3, squeeze=False)
  density = min(row['density'] for row in rows if row['density'])
  for line, task in zip(panels, tasks, strict=True):
    for axes, field in zip(line, ('lost', 'accuracy %', 'loss'), strict=True):
      for i, name in enumerate(METHODS):
        mine = [
          row
          for row in rows
          if row['task'] == task
          and row['method'] == name
          and row['density'] in (None, density)
          and row[field] is not None
        ]
        axes.plot(
          [row['P'] for row in mine],
          [float(row[field]) for row in mine],
          '.-',
          color=f'C{i}',
          label=name,
        )
      axes.set(
        title=f'{task}, density {density}', xlabel='workers', ylabel=field
      )
      axes.set_xscale('log', base=2)
  figure.legend(
    *panels[0, 1].get_legend_handles_labels(),
    frameon=False,
    loc='outside right upper',
  )
  return figure


if __name__ == '__main__':
  kept_runs.run(
    'gtopk_mass',
    "gTop-k's lost mass, and what it costs",
    measure,
    devices=max(WORKERS),
  )
