"""Who reaches an accuracy first, waiting or not, and with how many workers?

    python -m experiments.async_crossover

Jin et al., 2016, found asynchronous methods (elastic averaging and gossip)
faster up to about 32 workers and all-reduce beyond, depending on the learning
rate. arXiv:1611.04581

It takes about 25 minutes on 2 busy cores.
"""

from matplotlib.figure import Figure

from experiments.framework import (
  claim,
  figures,
  kept_runs,
  virtual_time_runs,
)
from experiments.framework.kept_runs import KeptRuns

CLAIM = claim.Claim(
  'async_crossover',
  'Not waiting pays up to about 32 workers',
  'Not waiting is faster up to about 32 workers, all-reduce beyond',
  'curves without a table (arXiv:1611.04581)',
)
UNDECIDED = (
  'one seed, no tuning; the target falls within 35 to 130 gradients; the '
  'server adds up at an unscaled rate'
)
TARGET = 0.78
RATES = (0.05, 0.005)
STEP_S, SPREAD = 0.1, 0.3
# A model travels in 0.14 of a gradient's time: 45 MB of ResNet-18 on 10 Gbit/s
# beside 0.25 s for 32 pictures. Four shards keep a server up to 28 workers.
LINK = virtual_time_runs.link(0.14 * STEP_S)
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
TIME = f': virtual seconds to {TARGET} held out'  # Behind a method's name.
FREE = [name for name in METHODS if name != 'all-reduce']


def measure(quick: bool, kept: KeptRuns) -> claim.Finding:
  """All methods at each P and rate, until the target or so many steps."""
  sizes, steps = ((4,), 15) if quick else ((4, 8, 16, 32, 64, 128), 240)
  rows = []
  for rate in RATES[:1] if quick else RATES:
    for workers in sizes:
      row = {'learning rate': rate, 'workers': workers}
      for name, (strategy, how) in METHODS.items():
        config = virtual_time_runs.config(
          strategy, workers, steps, rate, cluster={**CLUSTER, **how}
        )
        found = kept.run(config)['records']
        row[f'{name}{TIME}'] = virtual_time_runs.to_target(found, TARGET)
        row[f'{name}: last held-out accuracy'] = (
          found[-1]['test_accuracy'] if found else None
        )
      rows.append(row)
  return claim.Finding(
    verdict(rows),
    rows,
    NOTES.format(TARGET, steps),
    'MLP on Fashion-MNIST in virtual time',
    f'to {TARGET} held out, at most {steps} gradients per worker',
    seeds=1,
  )


NOTES = """
Virtual seconds until {} held-out accuracy (1,200 pictures, exact mean of the
workers or the center; between evaluations, every 5 steps, a straight line);
empty: not within {} steps per worker, or diverged. An MLP with 32 hidden units
on Fashion-MNIST, batches of 16, Nesterov 0.9, constant learning rate, one seed,
no tuning per method. Gradients take 0.1 s (log-normal, sigma 0.3), a model
travels in 0.014 s, links serve one at a time, the server has 4 shards. EASGD
moves by 0.8 / P after every step, with P workers; the server adds up what it is
handed. Leads: takes at most 0.9 of all-reduce's time; with a single number of
workers that may be noise, with one seed.
Runs are kept, not repeated: the seconds below are those of the last call.
"""


def ahead(rows: claim.Rows, rate: float, name: str) -> list[int]:
  """The numbers of workers at which a method takes at most 0.9 of
  all-reduce's time."""
  return [
    row['workers']
    for row in rows
    if row['learning rate'] == rate and _first(row, name)
  ]


def _first(row: dict, name: str) -> bool:
  ours, theirs = row[f'{name}{TIME}'], row[f'all-reduce{TIME}']
  return ours is not None and (theirs is None or ours < 0.9 * theirs)


def verdict(rows: claim.Rows) -> claim.Verdict:
  """Per learning rate: who leads up to how many workers; whether near 32."""
  rates, most = figures.values(rows, 'learning rate'), rows[-1]['workers']
  leads = {(r, name): ahead(rows, r, name) for r in rates for name in FREE}
  near = [
    f'{name} (learning rate {rate:g})'
    for (rate, name), sizes in leads.items()
    if len(sizes) > 1 and 16 <= max(sizes) < min(65, most)
  ]
  told = [
    'A lead over all-reduce that ends between 16 and 64 workers is found for '
    f'{", ".join(near) or "none"} of {len(leads)} cases.'
  ]
  for rate in rates:
    shares = '; '.join(_share(rows, rate, name) for name in FREE)
    told.append(f'At learning rate {rate:g}: {shares}.')
  differ = any(leads[r, n] != leads[rates[0], n] for r, n in leads)
  return claim.Verdict(
    len(near),
    len(leads),
    f'a lead that ends between 16 and 64 workers in {len(near)} of '
    f'{len(leads)} cases'
    + ('; who leads depends on the learning rate' if differ else ''),
    ' '.join(told),
    UNDECIDED,
  )


def _share(rows: claim.Rows, rate: float, name: str) -> str:
  """Where a method leads, and its time over all-reduce's at the ends."""
  mine = [row for row in rows if row['learning rate'] == rate]
  ends = [
    f'{row[f"{name}{TIME}"] / row[f"all-reduce{TIME}"]:.2f} of its time with '
    f'{row["workers"]}'
    for row in (mine[0], mine[-1])
    if row[f'{name}{TIME}'] and row[f'all-reduce{TIME}']
  ]
  sizes = ', '.join(map(str, ahead(rows, rate, name))) or 'no number of'
  at_ends = ', '.join(ends) or 'the target is not reached at the ends'
  return f'{name} leads with {sizes} workers ({at_ends})'


def figure(rows: claim.Rows) -> Figure:
  """Time to the target against workers, a panel per learning rate."""
  rates = figures.values(rows, 'learning rate')
  found = Figure(figsize=(4.5 * len(rates) + 2, 3.8), layout='constrained')
  panels = found.subplots(1, len(rates), squeeze=False, sharex=True)[0]
  for axes, rate in zip(panels, rates, strict=True):
    mine = [row for row in rows if row['learning rate'] == rate]
    for name in METHODS:
      known = [row for row in mine if row[f'{name}{TIME}'] is not None]
      axes.plot(
        [row['workers'] for row in known],
        [row[f'{name}{TIME}'] for row in known],
        'o-',
        label=name,
      )
    axes.set(title=f'learning rate {rate:g}', yscale='log')
    figures.over_workers(axes)
    axes.grid(alpha=0.3)
  panels[0].set_ylabel(f'virtual seconds to {TARGET} held out')
  figures.legend(found, panels[0])
  return found


if __name__ == '__main__':
  kept_runs.run(CLAIM, measure, figure, devices=1)
