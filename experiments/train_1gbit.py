"""Seconds to a target accuracy on real, slow links: ResNet-20 on CIFAR-10.

    python -m experiments.train_1gbit

Four workers in network namespaces, 1 Gbit/s and 100 Mbit/s, several
strategies (configs/cifar10_links.py). Linux, root, iproute2.
"""

import pathlib
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.framework import claim
from experiments.testbed import network, processes
from gossipjax.errors import UserError
from gossipjax.results import analysis

RATES = ('1gbit', '100mbit')
WORKERS = 4
QUICK = (
  '--config.steps=4',
  '--config.log_every=2',
  '--config.eval_every=2',
  '--config.task.name=digits',
  '--config.task.model=mlp',
  '--config.task.augment=False',
)


def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
  """Trains at both rates, unless an earlier call has, and compares; the quick
  form at one, an MLP."""
  frames = [
    _trained(
      rate,
      folder / rate if quick else pathlib.Path('runs/train_1gbit') / rate,
      quick,
    )
    for rate in (RATES[:1] if quick else RATES)
  ]
  frame = pd.concat(frames, ignore_index=True)
  # What the worst of them reaches in the end, all can be asked for.
  last = frame.groupby(['rate', 'run']).test_accuracy.last()
  target = float(np.floor(100 * last.min()) / 100)
  rows = [
    _row(run, target) for _, run in frame.groupby(['rate', 'run'], sort=False)
  ]
  return claim.Finding(
    rows, _figure(frame, target), _verdict(rows, target), NOTES
  )


def _trained(rate: str, workdir: pathlib.Path, quick: bool) -> pd.DataFrame:
  if not (workdir / 'summary.json').exists():
    code = processes.trained(
      WORKERS,
      network.shape(rate),
      [
        '--config=configs/cifar10_links.py',
        f'--workdir={workdir}',
        *(QUICK if quick else ()),
        *(['--resume'] if (workdir / 'config.json').exists() else ()),
      ],
    )
    if code:
      raise UserError(
        f'The training at {rate} ended with exit code {code}; the '
        'same command goes on with it.'
      )
  return analysis.load(workdir).assign(rate=rate)


def _row(run: pd.DataFrame, target: float) -> dict[str, Any]:
  good = run[run.test_accuracy >= target]
  end = run.iloc[-1]
  return {
    'rate': end.rate,
    'strategy': end.run,
    'seconds to target': float(good.train_s.iloc[0]) if len(good) else None,
    'steps to target': int(good.step.iloc[0]) if len(good) else None,
    'seconds a step': float(end.train_s / end.step),
    'held out': float(end.test_accuracy),
    'sent a step': int(end.bytes_sent / end.step),
    'wire a step': int(end.wire_bytes / end.step),
  }


def _verdict(rows: list[dict[str, Any]], target: float) -> str:
  text = []
  for rate in dict.fromkeys(r['rate'] for r in rows):
    mine = [r for r in rows if r['rate'] == rate and r['seconds to target']]
    dense = next(r for r in mine if r['strategy'] == 'all_reduce')
    best = min(mine, key=lambda r: r['seconds to target'])
    ratio = dense['seconds to target'] / best['seconds to target']
    text.append(
      f'at {rate} {best["strategy"]} is first, {ratio:.2f} times as '
      'fast as all_reduce'
    )
  return f'To {target:.2f} held out, in measured seconds: {"; ".join(text)}.'


NOTES = """
ResNet-20 (0.27 M parameters), 4 workers with 32 pictures each, Nesterov 0.9,
cosine, the same learning rate 0.1 for all, not tuned; one seed. Seconds are
those in training steps (computing and communicating), without compiling and
evaluating. The target is what all of them reach, in whole per cents; the next
evaluation counts, so seconds have the grain of 50 steps. All workers compute
on this machine's cores.
"""


def _figure(frame: pd.DataFrame, target: float) -> Figure:
  figure = Figure(figsize=(9, 4), layout='constrained')
  panels = figure.subplots(1, len(RATES), sharey=True)
  for axes, rate in zip(panels, RATES, strict=True):
    for name, run in frame[frame.rate == rate].groupby('run', sort=False):
      seen = run.dropna(subset='test_accuracy')
      axes.plot(seen.train_s, seen.test_accuracy, '.-', label=name)
    axes.axhline(target, color='gray', linewidth=0.7)
    axes.set(title=rate, xlabel='seconds in training steps (measured)')
  panels[0].set_ylabel('held-out accuracy')
  panels[0].legend(frameon=False)
  return figure


if __name__ == '__main__':
  claim.run('train_1gbit', 'Seconds to an accuracy on slow links', measure)
