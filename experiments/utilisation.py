"""Utilisation: the bandwidth that keeps accelerators busy, per method.

    python -m experiments.utilisation

For models of 1, 10 and 100 billion parameters, computes the bandwidth of each
worker's link that lets it compute for 50 to 99 % of the time, if it waits for
each exchange and if exchanges overlap the steps that follow. The bytes and
rounds are the strategies' bills; nothing of that size is trained.
"""

import pathlib

import numpy as np
from matplotlib.figure import Figure

from experiments.framework import claim, figures, notes, period_bills
from experiments.framework.period_bills import METHODS

CLAIM = claim.Claim(
  'utilisation',
  'Bandwidth for 50 to 99 % of computing utilisation',
  'Streaming DiLoCo needs a hundredth of the bandwidth of data parallel '
  'training for 95 % of utilisation',
  '400 times fewer bits than data parallel training with 16 bits, and a peak '
  '8 times lower than without fragments (arXiv:2501.18512)',
)
WORKERS, LATENCY_S = 8, 30e-3
SHARES = (0.5, 0.75, 0.9, 0.95, 0.99)
# Parameters, and seconds of a step: given, not measured.
MODELS = {'1 B': (1e9, 0.1), '10 B': (1e10, 0.8), '100 B': (1e11, 4.9)}
STREAMING = 'streaming_diloco, period 100, 4 bits in two shots'


def utilisation(
  name: str, model: str, bits_per_s: float, overlapped: bool
) -> float:
  """Seconds of computing over all seconds of a period.

  Args:
    name: of METHODS.
    model: of MODELS.
    bits_per_s: of each worker's link, in each direction.
    overlapped: whether an exchange overlaps the steps that follow, so that
      workers wait only for what is left after them.
  """
  (size, step_s), method = MODELS[model], METHODS[name]
  hidden = method.overlap_steps * step_s * overlapped
  traffic = period_bills.bill(name, WORKERS)
  rounds, path = traffic.rounds.max(axis=0), traffic.path_bytes.max(axis=0)
  seconds = rounds * LATENCY_S + 8 * size * path / bits_per_s
  compute_s = method.period * step_s
  waited_s = np.maximum(seconds - hidden, 0)[rounds > 0].sum()
  return float(compute_s / (compute_s + waited_s))


def needed(name: str, model: str, share: float, overlapped: bool):
  """The least Gbit/s for a share of utilisation; None if latency forbids it."""
  reached = lambda log: utilisation(name, model, 10**log, overlapped) >= share
  low, high = 3.0, 16.0
  if not reached(high):
    return None
  while high - low > 1e-4:
    middle = (low + high) / 2
    low, high = (low, middle) if reached(middle) else (middle, high)
  return 10**high / 1e9


def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
  """Computes the bandwidths of all methods and models; quick, of one model."""
  del folder
  models = list(MODELS)[: 1 if quick else None]
  rows = [
    {
      'model': model,
      'method': name,
      'beside computing': overlapped,
      **{
        f'Gbit/s for {share:.0%}': needed(name, model, share, overlapped)
        for share in SHARES
      },
    }
    for model in models
    for name in METHODS
    for overlapped in (False, True)
  ]
  return claim.Finding(
    verdict(rows),
    rows,
    NOTES,
    f'bills of {len(METHODS)} methods for {len(models)} sizes of a model, '
    f'{WORKERS} workers',
    'one modelled period, no training',
    seeds=0,
  )


def verdict(rows: claim.Rows) -> claim.Verdict:
  """Judges whether overlapped streaming DiLoCo needs a hundredth at 95 %."""
  column = 'Gbit/s for 95%'
  rates = lambda name: {
    row['model']: row[column]
    for row in rows
    if row['method'] == name and row['beside computing']
  }
  dense = rates('all_reduce')
  ours = rates(STREAMING)
  ratios = [claim.ratio(dense[model], ours[model]) for model in ours]
  known = [ratio for ratio in ratios if ratio is not None]
  full, half = (
    claim.span([{'ratio': r and r * bits / 32} for r in ratios], 'ratio', '.0f')
    for bits in (32, 16)
  )
  never = [model for model in ours if dense[model] is None]
  note = (
    f' Not judged is {", ".join(never)}: there the latency of all-reduce alone '
    'is too long for 95 % at any bandwidth.'
  )
  return claim.Verdict(
    sum(ratio / 2 >= 100 for ratio in known),
    len(known),
    f'all-reduce of 16-bit gradients needs {half} times the bandwidth of 4-bit '
    'streaming DiLoCo',
    'For 95 % of utilisation beside computing, all-reduce of 16-bit '
    f'gradients, as in the paper, needs {half} times the bandwidth of '
    'streaming DiLoCo with 4 bits, period 100, 8 fragments and a delay of 5 '
    f'steps; of 32-bit gradients, {full} times.{note if never else ""}',
    open=len(never),
  )


NOTES = notes.of(
  'utilisation',
  workers=WORKERS,
  latency=1000 * LATENCY_S,
  layers=period_bills.LAYERS,
)


def figure(rows: claim.Rows) -> Figure:
  """Gbit/s against utilisation for the largest model, beside computing."""
  found = Figure(figsize=(10, 5.5), layout='constrained')
  axes = found.subplots()
  model = rows[-1]['model']
  shares = [100 * share for share in SHARES]
  rates = {
    row['method']: (shares, [row[f'Gbit/s for {s:.0%}'] for s in SHARES])
    for row in rows
    if row['model'] == model and row['beside computing']
  }
  figures.curves(axes, rates)
  axes.set_yscale('log')
  axes.set(
    xlabel='computing utilisation %',
    ylabel='Gbit/s of each worker (model)',
    title=f'{model} parameters, {WORKERS} workers, beside computing',
  )
  figures.legend(found, axes)
  return found


if __name__ == '__main__':
  claim.run(CLAIM, measure, figure)
