"""The share of time that workers compute, measured and modelled, per method.

Trainings in network namespaces, each kept as it comes. Seconds of computing are
those of workers that never exchange. The model takes the measured step between
namespaces on links of unlimited rate, which contains the selection of entries
and copies of messages. From it, it subtracts the modelled wait on these links
and adds the modelled wait on the slow link, both by the bills
(gossipjax/network.py). Both links are fitted to single collectives between the
same namespaces.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from experiments.framework.result_store import ResultStore
from experiments.testbed import calibrate, link_shape
from experiments.testbed.step_seconds import TASK, Steps, time_training
from gossipjax import network
from gossipjax.advice import step_traffic
from gossipjax.config import defaults, resolve

STEPS, EVERY = 32, 8
SHARES = (0.5, 0.75, 0.9, 0.95)
MODEL = {'width': 2048, 'layers': 2}  # As TASK.
# Strategy, its arguments, and whether exchanges are beside computing.
METHODS: dict[str, tuple[str, dict[str, Any], bool]] = {
  'all_reduce': ('all_reduce', {}, False),
  'topk': ('topk', {'density': 0.01}, False),
  'topk, in buckets': (
    'topk',
    {'density': 0.01, 'granularity': {'name': 'bucket', 'bytes': 2**20}},
    False,
  ),
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
KIND, LINK = 'step_seconds', 'fitted_link'  # Of kept results.
UNSHAPED = ''  # A rate: as fast as the machine.
MODELLED, MEASURED = 'computing, modelled', 'computing, measured'
UNLIMITED = 'computing, without a limit of the link'
NEVER = ('local_sgd', {'period': 10**6}, False)


def steps(kept: ResultStore, workers: int, rate: str, method) -> Steps:
  """Seconds and bytes of a method's steps, measured once."""
  key = _key(workers, rate, method)
  found = kept.get_or_compute(
    KIND,
    key,
    lambda: time_training(
      workers, link_shape.parse(rate), method[0], key['flags'], STEPS, EVERY
    )._asdict(),
  )
  return Steps(**found)


def is_kept(kept: ResultStore, workers: int, rate: str, name: str) -> bool:
  """Whether all that a row needs is measured."""
  method = METHODS[name]
  needed = (UNSHAPED, NEVER), (UNSHAPED, method), (rate, method)
  return all(kept.find(KIND, _key(workers, *cell)) for cell in needed) and all(
    kept.find(LINK, {'workers': workers, 'rate': link_rate})
    for link_rate in (UNSHAPED, rate)
  )


def fitted_link(kept: ResultStore, workers: int, rate: str) -> network.Link:
  """The link model at a rate, fitted once."""
  shape = link_shape.parse(rate)
  key = {'workers': workers, 'rate': rate}
  return network.Link(
    **kept.get_or_compute(
      LINK, key, lambda: calibrate.fitted(workers, shape)._asdict()
    )
  )


def _key(workers: int, rate: str, method) -> dict[str, Any]:
  name, options, overlap = method
  flags = [f'--config.strategy.{key}={v}' for key, v in _flat(options)]
  flags += [*TASK, f'--config.overlap={overlap}']
  key = {'workers': workers, 'rate': rate, 'strategy': name, 'flags': flags}
  return key | {'steps': STEPS, 'log_every': EVERY}


def _flat(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
  for key, value in values.items():
    if isinstance(value, dict):
      yield from ((f'{key}.{inner}', v) for inner, v in value.items())
    else:
      yield key, value


def waited_s(
  method, workers: int, link: network.Link, compute_s: float
) -> float:
  """Modelled seconds per step that workers wait, over the measured steps."""
  name, options, overlap = method
  strategy = resolve.strategy(resolve.strategy_config(name, **options))
  task = resolve.task(defaults.task('digits', **MODEL))
  params, _ = jax.eval_shape(task.begin, jax.random.key(0))
  traffic = step_traffic.per_step(strategy, params, workers, range(STEPS)).sent
  seconds = network.seconds(link, traffic)[EVERY:].reshape(-1, EVERY)
  delay = options['delay'] if overlap else 0
  waits = [
    network.waited_seconds(part, compute_s, delay) for part in seconds.tolist()
  ]
  return float(np.mean(waits)) / EVERY


def row(
  kept: ResultStore, workers: int, rate: str, name: str
) -> dict[str, Any]:
  """A method at a rate."""
  compute_s = steps(kept, workers, UNSHAPED, NEVER).seconds
  local_s = steps(kept, workers, UNSHAPED, METHODS[name]).seconds
  measured = steps(kept, workers, rate, METHODS[name])
  fast, slow = (fitted_link(kept, workers, r) for r in (UNSHAPED, rate))
  own_s = local_s - waited_s(METHODS[name], workers, fast, local_s)
  modelled_s = own_s + waited_s(METHODS[name], workers, slow, own_s)
  return {
    'method': name,
    'workers': workers,
    'link rate': rate,
    'computing s': compute_s,
    'step s without a link': local_s,
    'step s, modelled': modelled_s,
    'step s, measured': measured.seconds,
    MODELLED: compute_s / modelled_s,
    MEASURED: compute_s / measured.seconds,
    'bytes per step, ledger': measured.logical_bytes,
    'bytes per step, interface': measured.wire_bytes,
  }


def needed(rows: Sequence[dict[str, Any]], column: str, share: float):
  """Mbit/s for a share of computing, between two rates; None outside them."""
  points = sorted(
    (8e-6 * (link_shape.parse(r['link rate']).bytes_per_s or 0), r[column])
    for r in rows
  )
  for (low, a), (high, b) in itertools.pairwise(points):
    if a <= share <= b and a < b:
      weight = (share - a) / (b - a)
      return float(low ** (1 - weight) * high**weight)
  return None


def bandwidths(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
  """Mbit/s for each of SHARES, by workers and method."""
  return [
    {
      'workers': workers,
      'method': name,
      'known': column.split(', ')[1],
      UNLIMITED: group[0]['computing s'] / group[0]['step s without a link'],
      **{
        f'Mbit/s for {share:.0%}': needed(group, column, share)
        for share in SHARES
      },
    }
    for workers, name in dict.fromkeys(
      (r['workers'], r['method']) for r in rows
    )
    for group in [
      [r for r in rows if (r['workers'], r['method']) == (workers, name)]
    ]
    for column in (MODELLED, MEASURED)
  ]
