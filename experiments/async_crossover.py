"""Who reaches an accuracy first, waiting or not, and with how many workers?

    python -m experiments.async_crossover

Jin et al., 2016, found asynchronous methods (elastic averaging and gossip)
faster up to about 32 workers and all-reduce beyond, depending on the learning
rate. arXiv:1611.04581

It takes about 25 minutes on 2 busy cores.
"""

import pathlib

from matplotlib.figure import Figure

from experiments.framework import claim, virtual_time_runs

TARGET = 0.78
RATES = (0.05, 0.005)
STEP_S, SPREAD = 0.1, 0.3
PARAMETERS = 784 * 32 + 32 + 32 * 10 + 10
# A model travels in 0.14 of a gradient's time: 45 MB of ResNet-18 on 10 Gbit/s
# beside 0.25 s for 32 pictures. Four shards keep a server up to 28 workers.
LINK = {'latency_s': 1e-4, 'bytes_per_s': 4 * PARAMETERS / (0.14 * STEP_S)}
CLUSTER = {
  'compute': 'lognormal',
  'step_s': STEP_S,
  'spread': SPREAD,
  'shards': 4,
  'target_accuracy': TARGET,
  **LINK,
}
METHODS = {
  'all-reduce': ('all_reduce', virtual_time_runs.WAITS),
  'EASGD': ('elastic', virtual_time_runs.ASYNCHRONOUS),
  'pull-gossip': ('pull_gossip', virtual_time_runs.ASYNCHRONOUS),
  'push-gossip': ('push_gossip', virtual_time_runs.ASYNCHRONOUS),
  'server': ('parameter_server', virtual_time_runs.ASYNCHRONOUS),
}
FREE = [name for name in METHODS if name != 'all-reduce']


def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
  """All methods at each P and rate, until the target or so many steps."""
  sizes, steps = ((4,), 15) if quick else ((4, 8, 16, 32, 64, 128), 240)
  rows = []
  for rate in RATES[:1] if quick else RATES:
    for workers in sizes:
      row = {'eta': rate, 'P': workers}
      for name, (strategy, how) in METHODS.items():
        found = virtual_time_runs.run(
          folder,
          virtual_time_runs.config(
            strategy, workers, steps, rate, cluster={**CLUSTER, **how}
          ),
        )
        row[f'{name}: s'] = virtual_time_runs.to_target(found, TARGET)
        row[f'{name}: last accuracy'] = (
          found[-1]['test_accuracy'] if (found) else None
        )
      rows.append(row)
  notes = NOTES.format(TARGET, steps)
  return claim.Finding(rows, _figure(rows), verdict(rows), notes)


NOTES = """
Virtual seconds until {} held-out accuracy (1,200 pictures, exact mean of the
workers or the center; between evaluations, every 5 steps, a straight line);
empty: not within {} steps per worker, or diverged. An MLP with 32 hidden units
on Fashion-MNIST, batches of 16, Nesterov 0.9, constant eta, one seed, no tuning
per method. Gradients take 0.1 s (log-normal, sigma 0.3), a model travels in
0.014 s, links serve one at a time, the server has 4 shards. EASGD moves by
0.8 / P after every step; the server adds up what it is handed. Leads: takes at
most 0.9 of all-reduce's time; at a single P that may be noise, with one seed.
Runs are kept, not repeated: the seconds below are those of the last call.
"""


def ahead(rows: list[dict], rate: float, name: str) -> list[int]:
  """The P at which a method takes at most 0.9 of all-reduce's time."""
  return [row['P'] for row in rows if row['eta'] == rate and _first(row, name)]


def _first(row: dict, name: str) -> bool:
  ours, theirs = row[f'{name}: s'], row['all-reduce: s']
  return ours is not None and (theirs is None or ours < 0.9 * theirs)


def verdict(rows: list[dict]) -> str:
  """Per eta: who is ahead up to which P, and whether that ends near 32."""
  rates = list(dict.fromkeys(row['eta'] for row in rows))
  most = max(row['P'] for row in rows)
  leads = {
    rate: {name: ahead(rows, rate, name) for name in FREE} for rate in rates
  }
  near = [
    f'{name} (eta = {rate:g})'
    for rate in rates
    for name, sizes in leads[rate].items()
    if len(sizes) > 1 and 16 <= max(sizes) < min(65, most)
  ]
  total = len(rates) * len(FREE)
  differ = any(leads[rate] != leads[rates[0]] for rate in rates)
  head = (
    'Holds'
    if len(near) == total
    else 'Holds only for some'
    if near
    else 'Does not hold'
  )
  told = [
    f'{head}: a lead over all-reduce that ends between 16 and 64 workers '
    f'is found for {", ".join(near) or "none"} of {total} cases'
    + (
      f'; who leads {"depends" if differ else "does not depend"} on eta'
      if len(rates) > 1
      else ''
    )
    + '.'
  ]
  for rate in rates:
    shares = '; '.join(_share(rows, rate, name) for name in FREE)
    told.append(f'At eta = {rate:g}: {shares}.')
  return ' '.join(told)


def _share(rows: list[dict], rate: float, name: str) -> str:
  """Where a method leads, and its time over all-reduce's at the ends."""
  mine = [row for row in rows if row['eta'] == rate]
  ends = [
    f'{row[f"{name}: s"] / row["all-reduce: s"]:.2f} at P = {row["P"]}'
    for row in (mine[0], mine[-1])
    if row[f'{name}: s'] and row['all-reduce: s']
  ]
  sizes = ', '.join(map(str, ahead(rows, rate, name))) or 'no P'
  return f'{name} leads at {sizes} ({", ".join(ends) or "never there"})'


def _figure(rows: list[dict]) -> Figure:
  rates = list(dict.fromkeys(row['eta'] for row in rows))
  figure = Figure(figsize=(4.5 * len(rates) + 2, 3.8), layout='constrained')
  panels = figure.subplots(1, len(rates), squeeze=False, sharex=True)[0]
  for axes, rate in zip(panels, rates, strict=True):
    mine = [row for row in rows if row['eta'] == rate]
    for i, name in enumerate(METHODS):
      known = [
        (r['P'], r[f'{name}: s']) for r in mine if r[f'{name}: s'] is not None
      ]
      axes.plot(
        *zip(*known, strict=True) if known else ((), ()),
        'o-',
        color=f'C{i}',
        label=name,
      )
    axes.set(title=f'eta = {rate:g}', xlabel='workers', yscale='log')
    axes.set_xscale('log', base=2)
    axes.grid(alpha=0.3)
  panels[0].set_ylabel(f'virtual seconds to {TARGET} held out')
  figure.legend(
    *panels[0].get_legend_handles_labels(),
    frameon=False,
    loc='outside right upper',
  )
  return figure


if __name__ == '__main__':
  claim.run(
    'async_crossover', 'Not waiting pays up to about 32 workers', measure
  )
