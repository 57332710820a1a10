"""The share of time that workers compute, measured and modelled, per method.

    python -m experiments.testbed.utilisation --workers=2 \
        --rates=100mbit,300mbit,1gbit

trains in network namespaces and keeps each row as it comes in --folder, so that
a call goes on where the last one stopped. Seconds of computing are those of
workers that never exchange. The model adds what workers wait for by their bills
(gossipjax/network.py); it knows nothing of the selection of entries, and of
exchanges that compete with computing for cores. Below the rows is the bandwidth
for shares of computing, interpolated between the rates. A busy machine measures
neither; run it on one that has a core for each worker and nothing else to do.
"""

import argparse
import itertools
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from experiments.framework.kept import Kept
from experiments.testbed import link_shape
from experiments.testbed.step_seconds import TASK, Steps, measured
from gossipjax import network
from gossipjax.advice import step_traffic
from gossipjax.comparison import markup
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError

STEPS, EVERY = 32, 8
LATENCY_S = 2e-4  # Of a round between namespaces of one machine.
SHARES = (0.5, 0.75, 0.9, 0.95)
MODEL = {'width': 2048, 'layers': 2}  # As TASK.
# Strategy, its arguments, and whether exchanges are beside computing.
METHODS: dict[str, tuple[str, dict[str, Any], bool]] = {
  'all_reduce': ('all_reduce', {}, False),
  'topk': ('topk', {'density': 0.01}, False),
  'gtopk': ('gtopk', {'density': 0.01}, False),
  'local_sgd': ('local_sgd', {'period': 4}, False),
  'local_sgd, beside': ('delayed_averaging', {'period': 4, 'delay': 3}, True),
  'diloco': ('diloco', {'period': 4}, False),
  'streaming_diloco': ('streaming_diloco', {'period': 4, 'delay': 2}, False),
  'streaming_diloco, beside': (
    'streaming_diloco',
    {'period': 4, 'delay': 2},
    True,
  ),
}
NEVER = ('local_sgd', {'period': 10**6}, False)


def steps(kept: Kept, workers: int, rate: str, method) -> Steps:
  """Seconds and bytes of a method's steps, measured once."""
  name, given, beside = method
  flags = [f'--config.strategy.{key}={v}' for key, v in given.items()]
  flags += [*TASK, f'--config.overlap={beside}']
  key = {'workers': workers, 'rate': rate, 'strategy': name, 'flags': flags}
  found = kept.once(
    'step_seconds',
    key | {'steps': STEPS, 'log_every': EVERY},
    lambda: measured(
      workers, link_shape.shape(rate), name, flags, STEPS, EVERY
    )._asdict(),
  )
  return Steps(**found)


def waited_s(method, workers: int, rate: str, compute_s: float) -> float:
  """Modelled seconds per step that workers wait, over the measured steps."""
  name, given, beside = method
  strategy = resolve.strategy(resolve.strategy_config(name, **given))
  task = resolve.task(defaults.task('digits', **MODEL))
  params, _ = jax.eval_shape(task.begin, jax.random.key(0))
  bill = step_traffic.per_step(strategy, params, workers, STEPS).sent
  link = network.link(LATENCY_S, link_shape.shape(rate).bytes_per_s)
  each = network.seconds(link, bill)[EVERY:].reshape(-1, EVERY)
  late = given['delay'] if beside else 0
  waits = [
    network.waited_seconds(part, compute_s, late) for part in each.tolist()
  ]
  return float(np.mean(waits)) / EVERY


def row(kept: Kept, workers: int, rate: str, name: str) -> dict[str, Any]:
  """A method at a rate."""
  compute_s = steps(kept, workers, rate, NEVER).seconds
  found = steps(kept, workers, rate, METHODS[name])
  waits = waited_s(METHODS[name], workers, rate, compute_s)
  return {
    'method': name,
    'workers': workers,
    'rate': rate,
    'computing s': compute_s,
    'step s': found.seconds,
    'computing, modelled': compute_s / (compute_s + waits),
    'computing, measured': compute_s / found.seconds,
    'bytes per step, ledger': found.logical_bytes,
    'bytes per step, interface': found.wire_bytes,
  }


def needed(rows: Sequence[dict[str, Any]], column: str, share: float):
  """Mbit/s for a share of computing, between two rates; None outside them."""
  points = sorted(
    (8e-6 * (link_shape.shape(r['rate']).bytes_per_s or 0), r[column])
    for r in rows
  )
  for (low, a), (high, b) in itertools.pairwise(points):
    if a <= share <= b and a < b:
      part = (share - a) / (b - a)
      return float(low ** (1 - part) * high**part)
  return None


def bandwidths(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
  """Mbit/s for each of SHARES, by method, modelled and measured."""
  return [
    {
      'method': name,
      'known': column.split(', ')[1],
      **{
        f'Mbit/s for {share:.0%}': needed(
          [r for r in rows if r['method'] == name], column, share
        )
        for share in SHARES
      },
    }
    for name in dict.fromkeys(r['method'] for r in rows)
    for column in ('computing, modelled', 'computing, measured')
  ]


def main() -> int:
  parser = argparse.ArgumentParser(
    prog='python -m experiments.testbed.utilisation',
    description=__doc__.split('\n')[0],
  )
  parser.add_argument('--workers', type=int, default=2)
  parser.add_argument('--rates', default='100mbit,300mbit,1gbit')
  parser.add_argument('--methods', default='', help="divided by ';'")
  parser.add_argument('--folder', default='runs/utilisation')
  given = parser.parse_args()
  kept, rows = Kept(pathlib.Path(given.folder)), []
  names = given.methods.split(';') if given.methods else [*METHODS]
  try:
    if unknown := {*names} - {*METHODS}:
      raise UserError(
        f'--methods: {", ".join(unknown)} is none of {", ".join(METHODS)}.'
      )
    for rate in given.rates.split(','):
      rows += [row(kept, given.workers, rate, name) for name in names]
  except UserError as error:
    print(error, file=sys.stderr)
    return 2
  print(markup.of_rows(rows))
  print(markup.of_rows(bandwidths(rows)))
  return 0


if __name__ == '__main__':
  sys.exit(main())
