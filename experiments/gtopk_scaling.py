"""gTop-k on a real link: seconds per exchange, measured, beside the model's.

    python -m experiments.gtopk_scaling

Gradients of the published models' sizes, exchanged between network namespaces
with 1 GbE (100 Mbit/s where many workers share this machine's cores), and in
the same namespaces PyTorch's own exchanges. Linux, root, iproute2; with torch
installed its columns are filled.

Shi et al., 2019. arXiv:1901.04359
"""

import importlib.util
import json
import pathlib
from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure

from experiments import gtopk_cost
from experiments.framework import claim
from experiments.framework.kept_runs import MINUTES, RUNS, Evidence
from experiments.testbed import calibrate, network, processes
from experiments.testbed.timing import Timing
from gossipjax.commands import console
from gossipjax.network import link
from gossipjax.results import workdir

DENSITY = gtopk_cost.DENSITY
SCHEMES = {
  'dense': ('all_reduce', {}),
  'top-k': ('topk', {'density': DENSITY}),
  'gTop-k': ('gtopk', {'density': DENSITY}),
  'gTop-k butterfly': ('gtopk', {'density': DENSITY, 'exchange': 'butterfly'}),
  'gossip': ('gossip', {'topology': 'exponential'}),
  'adaptive gossip': (
    'adaptive_gossip',
    {
      'topology': 'exponential',
      'scope': 'all',
      'trigger': {'name': 'random', 'rate': 1.0},
    },
  ),
  'Hylo': ('hylo', {}),
}
TORCH = {
  'torch dense': ('all_reduce', {}),
  'torch top-k': ('topk', {'density': DENSITY}),
  'torch PowerSGD': ('power_sgd', {'rank': 4}),
}
# Workers, rate, and the models whose gradients fit this machine's memory.
CELLS = (
  (2, '1gbit', 4),
  (4, '1gbit', 4),
  (8, '1gbit', 3),
  (4, '100mbit', 2),
  (16, '100mbit', 2),
)
MODELS = ('ResNet-20', 'VGG-16', 'ResNet-50', 'AlexNet')  # By size.
RATES = {'1gbit': link(100e-6, 1e9 / 8), '100mbit': link(200e-6, 1e8 / 8)}


def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
  """Cells that no earlier call has finished, while there is time; the quick
  form has one, of the smallest model."""
  cells, rows, done = ((2, '1gbit', 1),) if quick else CELLS, [], 0
  runs = Evidence(
    folder if quick else pathlib.Path(RUNS.value) / 'gtopk_scaling',
    MINUTES.value,
  )
  for workers, rate, models in cells:
    kept = runs.folder / f'{workers}-{rate}'
    if runs.over() and not kept.with_suffix('.ours.json').exists():
      continue
    rows += _cell(workers, rate, MODELS[:models], kept)
    done += 1
  extent = f'{done} of {len(cells)} settings are in the table.\n'
  return claim.Finding(rows, _figure(rows), _verdict(rows), extent + NOTES)


def _once(path: pathlib.Path, call: Callable[[], Any]) -> Any:
  """What it returns, from the file where an earlier call has left it."""
  if not path.exists():
    console.say(f'Measuring {path.stem} ...')
    workdir.write(path, json.dumps(call()))
  return json.loads(path.read_text())


def _cell(
  workers: int, rate: str, models: tuple[str, ...], kept: pathlib.Path
) -> list[dict[str, Any]]:
  sizes = {model: gtopk_cost.MODELS[model][0] for model in models}
  exchange = lambda schemes: [
    (what, n, given) for n in sizes.values() for what, given in schemes.values()
  ]
  shape = network.shape(rate)
  ours = [
    Timing(*found)
    for found in _once(
      kept.with_suffix('.ours.json'),
      lambda: calibrate.measure(workers, shape, exchange(SCHEMES)),
    )
  ]
  theirs = [None] * (len(sizes) * len(TORCH))
  if importlib.util.find_spec('torch'):
    theirs = [
      found['seconds']
      for found in _once(
        kept.with_suffix('.torch.json'),
        lambda: processes.measured(
          workers,
          shape,
          'experiments.testbed.torch_timing',
          [
            dict(zip(('what', 'numbers', 'arguments'), e, strict=True))
            for e in exchange(TORCH)
          ],
        ),
      )
    ]
  rows = []
  for i, model in enumerate(models):
    timings = dict(zip(SCHEMES, ours[i * len(SCHEMES) :], strict=False))
    torch = dict(zip(TORCH, theirs[i * len(TORCH) :], strict=False))
    rows.append(_row(model, workers, rate, timings, torch))
  return rows


def _row(model: str, workers: int, rate: str, timings, torch) -> dict[str, Any]:
  seconds = {scheme: t.seconds for scheme, t in timings.items()}
  size, batch, _, _, throughput, _ = gtopk_cost.MODELS[model]
  compute = batch / throughput  # Published, of one GPU alone.
  ring = 2 * (workers - 1) / workers * 4 * size / RATES[rate].bytes_per_s
  return {
    'model': model,
    'P': workers,
    'rate': rate,
    **{f'{scheme} s': s for scheme, s in seconds.items()},
    **{
      f'{scheme} {part} s': getattr(timings[scheme], f'{part}_s')
      for scheme in ('top-k', 'gTop-k')
      for part in ('local', 'selection')
    },
    **{
      f'{scheme} s, model': timings[scheme].local_s
      + timings[scheme].link_s(RATES[rate])
      for scheme in ('dense', 'top-k', 'gTop-k')
    },
    **{f'{scheme} s': s for scheme, s in torch.items()},
    'dense / ring bound': seconds['dense'] / ring,
    'gTop-k over dense': seconds['dense'] / seconds['gTop-k'],
    'gTop-k over top-k': seconds['top-k'] / seconds['gTop-k'],
    'gTop-k over torch top-k': torch['torch top-k']
    and (torch['torch top-k'] / seconds['gTop-k']),
    **{
      f'{scheme} efficiency': compute / (compute + seconds[scheme])
      for scheme in ('dense', 'top-k', 'gTop-k')
    },
  }


def _verdict(rows: list[dict[str, Any]]) -> str:
  span = lambda key: (min(r[key] for r in rows), max(r[key] for r in rows))
  dense, sparse, ring = map(
    span, ('gTop-k over dense', 'gTop-k over top-k', 'dense / ring bound')
  )
  errors = [
    r[f'{s} s, model'] / r[f'{s} s']
    for r in rows
    for s in ('dense', 'top-k', 'gTop-k')
  ]
  text = (
    f'Measured per exchange, gTop-k is {dense[0]:.3g} to {dense[1]:.3g} '
    f'times as fast as the dense all-reduce and {sparse[0]:.2f} to '
    f'{sparse[1]:.2f} times as fast as Top-k (published, as scaling '
    'efficiency of whole steps at P = 32: 2.7 to 12 and 1.1 to 1.7). The '
    f'dense ring takes {ring[0]:.2f} to {ring[1]:.2f} of its bound; the '
    'link model gives '
    f'{min(errors):.2f} to {max(errors):.2f} of what was measured.'
  )
  goal = next(
    (
      r
      for r in rows
      if (r['model'], r['P'], r['rate']) == ('ResNet-50', 4, '1gbit')
    ),
    None,
  )
  if goal is None:
    return f'{claim.word(0, 0)}: {text}'
  over, beside, bound = (
    goal[key]
    for key in (
      'gTop-k over dense',
      'gTop-k over torch top-k',
      'dense / ring bound',
    )
  )
  met = [over >= 12, bound <= 1.08, *([beside >= 8] if beside else [])]
  other = f'{beside:.1f}' if beside else 'an unknown number of'
  return (
    f'{claim.word(sum(met), len(met))}: for 25.6 M numbers, P = 4 and 1 '
    f'Gbit/s gTop-k is {over:.1f} times as fast as dense (goal: 12) and '
    f"{other} times as fast as PyTorch's top-k (goal: 8), and dense takes "
    f"{bound:.2f} of the ring's bound (goal: 1.08). {text}"
  )


NOTES = """
Seconds are medians of five exchanges from a common start, of the slowest
process; each has its share of this machine's cores, and where these are fewer
than processes selection is slower than on real hosts. `local` is what the same
processes take when the others' messages are echoed: selecting, merging,
packing; `selection`, by JAX's profiler, is what the first takes in the
exchange. The model adds to `local` the rounds and bytes of the ledger on the
nominal link. Efficiency sets the published single-GPU seconds of a step beside
the measured exchange. Columns of torch are empty where it is not installed; its
top-k gathers int64 indices. Adaptive gossip has a trigger that all share, and
is timed in a step in which it fires. Left out: AlexNet with 8 workers, and with
16 all but two, for memory.
"""


def _figure(rows: list[dict[str, Any]]) -> Figure:
  figure = Figure(figsize=(9, 4), layout='constrained')
  axes = figure.subplots()
  names = [f'{r["model"]}\nP={r["P"]}\n{r["rate"]}' for r in rows]
  schemes = [*SCHEMES, *(s for s in TORCH if rows[0][f'{s} s'])]
  width = 0.8 / len(schemes)
  for i, scheme in enumerate(schemes):
    axes.bar(
      [x + i * width for x in range(len(rows))],
      [r[f'{scheme} s'] for r in rows],
      width,
      label=scheme,
      hatch='//' if scheme in TORCH else None,
    )
  axes.set_xticks([x + 0.4 for x in range(len(rows))], names, fontsize=6)
  axes.set(yscale='log', ylabel='seconds per exchange (measured)')
  axes.legend(
    ncols=5,
    fontsize=7,
    frameon=False,
    loc='lower center',
    bbox_to_anchor=(0.5, 1),
  )
  return figure


if __name__ == '__main__':
  claim.run('gtopk_scaling', 'gTop-k on a real, slow link', measure)
