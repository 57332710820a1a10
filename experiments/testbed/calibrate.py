"""Fits the link model to measured exchanges, and says how far off it is.

    python -m experiments.testbed.calibrate --rate=1gbit --out=link.json

  seconds = local + latency_s rounds + path_bytes / bytes_per_s

fitted to single collectives of several sizes, least squares of the relative
error, then held against whole strategies. `local` is measured with the
others' messages echoed, and the selection in it by JAX's profiler. The file is
a link for --config.link, and for --link of `python -m gossipjax advise`.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import nnls

from experiments.testbed import link_shape, timing
from experiments.testbed.processes import run_module
from gossipjax import network
from gossipjax.comparison import markup
from gossipjax.errors import UserError
from gossipjax.network import Link
from gossipjax.results import workdir

SIZES = (1_000, 100_000, 1_000_000, 4_000_000)
MOVES = [(what, n, {}) for what in timing.MOVES for n in SIZES]
STRATEGIES = (
  ('all_reduce', {}),
  ('gossip', {'topology': 'exponential'}),
  ('topk', {'density': 0.001}),
  ('gtopk', {'density': 0.001}),
  ('topk', {'density': 0.01}),
  ('power_sgd', {'rank': 4}),
)


def measure(
  workers: int,
  link: link_shape.LinkShape,
  exchanges: Sequence[tuple[str, int, dict[str, Any]]],
) -> list[timing.Timing]:
  """Times (what, numbers, arguments) in namespaces behind such links."""
  spec = [
    dict(zip(('what', 'numbers', 'arguments'), exchange, strict=True))
    for exchange in exchanges
  ]
  return [
    timing.Timing(**fields)
    for fields in run_module(workers, link, 'experiments.testbed.timing', spec)
  ]


def fit(timings: Sequence[timing.Timing]) -> Link:
  """The link that explains them best."""
  seconds = np.array([t.seconds for t in timings])
  costs = (
    np.array([(t.rounds, t.path_bytes) for t in timings]) / seconds[:, None]
  )
  (latency_s, s_per_byte), _ = nnls(
    costs, 1 - np.array([t.local_s for t in timings]) / seconds
  )
  if not s_per_byte:
    raise UserError(
      'The link is too fast to be seen beside the computing; give '
      'a lower --rate.'
    )
  return Link(float(latency_s), float(1 / s_per_byte))


def fitted(workers: int, link: link_shape.LinkShape) -> Link:
  """The link model of namespaces behind such links, fitted to MOVES alone."""
  return fit(measure(workers, link, MOVES))


def rows(link: Link, timings: Sequence[timing.Timing]) -> list[dict[str, Any]]:
  """Measured and modelled seconds of each exchange."""
  found = []
  for t in timings:
    link_s = t.link_s(link)
    found.append(
      {
        'exchange': t.what,
        'numbers': t.numbers,
        'bytes': t.bytes,
        'measured s': t.seconds,
        'selection s': t.selection_s,
        'other computing s': t.local_s - t.selection_s,
        'communication s': t.seconds - t.local_s,
        'model: communication s': link_s,
        'model: all s': t.local_s + link_s,
        'model / measured': (t.local_s + link_s) / t.seconds,
      }
    )
  return found


def main() -> int:
  parser = argparse.ArgumentParser(
    prog='python -m experiments.testbed.calibrate',
    description=__doc__.split('\n')[0],
  )
  parser.add_argument('--workers', type=int, default=4)
  parser.add_argument('--rate', default='1gbit')
  parser.add_argument('--delay', default='')
  parser.add_argument(
    '--numbers',
    type=int,
    default=4_000_000,
    help='size of the gradient that strategies exchange',
  )
  parser.add_argument('--out', default='link.json')
  args = parser.parse_args()
  exchanges, out = [(x, args.numbers, a) for x, a in STRATEGIES], args.out
  try:
    if not (folder := pathlib.Path(out).parent).is_dir():
      raise UserError(f'--out={out}: there is no folder {folder}; make it.')
    timings = measure(
      args.workers, link_shape.parse(args.rate, args.delay), MOVES + exchanges
    )
    link = fit(timings[: len(MOVES)])
  except UserError as error:
    print(error, file=sys.stderr)
    return 2
  print(markup.of_rows(rows(link, timings)))
  print(f'{link.latency_s * 1e6:.0f} us and {link.bytes_per_s / 1e6:.1f} MB/s.')
  workdir.write(pathlib.Path(out), json.dumps(network.facts(link), indent=2))
  print(f'{out} keeps this link.')
  return 0


if __name__ == '__main__':
  sys.exit(main())
