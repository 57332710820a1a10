"""Times schemes of exchange in network namespaces, each once."""

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.framework.result_store import ResultStore
from experiments.testbed import calibrate, link_shape, processes
from experiments.testbed.timing import Timing
from gossipjax.network import Link

# By name: the strategy or exchange, and its arguments.
Schemes = Mapping[str, tuple[str, dict[str, Any]]]


def ours(
  kept: ResultStore,
  workers: int,
  rate: str,
  sizes: Sequence[int],
  schemes: Schemes,
  delay: str = '',
) -> list[dict[str, Timing]]:
  """The timings of each scheme, for each number of parameters.

  Args:
    kept: keeps the timings.
    workers: number of namespaces.
    rate: of the links, see `link_shape.parse`.
    sizes: numbers of parameters.
    schemes: what is timed.
    delay: of the links, see `link_shape.parse`.

  Returns:
    A dict by scheme for each size.
  """
  shape = link_shape.parse(rate, delay)
  exchanges = [
    (what, n, arguments) for n in sizes for what, arguments in schemes.values()
  ]
  key = {'workers': workers, 'rate': rate, 'exchanges': exchanges}
  key |= {'delay': delay} if delay else {}
  timings = kept.get_or_compute(
    'exchange_seconds',
    key,
    lambda: calibrate.measure(workers, shape, exchanges),
  )
  return _by_size([Timing(*timing) for timing in timings], schemes)


def torch(
  kept: ResultStore,
  workers: int,
  rate: str,
  sizes: Sequence[int],
  schemes: Schemes,
) -> list[dict[str, float | None]]:
  """The seconds of PyTorch's exchanges likewise; None if it is missing."""
  if not importlib.util.find_spec('torch'):
    return [dict.fromkeys(schemes) for _ in sizes]
  exchanges = [
    {'what': what, 'numbers': n, 'arguments': arguments}
    for n in sizes
    for what, arguments in schemes.values()
  ]
  module = 'experiments.testbed.torch_timing'
  shape = link_shape.parse(rate)
  timings = kept.get_or_compute(
    'torch_exchange_seconds',
    {'workers': workers, 'rate': rate, 'exchanges': exchanges},
    lambda: processes.run_module(workers, shape, module, exchanges),
  )
  return _by_size([timing['seconds'] for timing in timings], schemes)


def columns(
  timings: Mapping[str, Timing], parts: Sequence[str], link: Link
) -> dict[str, float]:
  """Seconds of each scheme; of some also their parts and what a model says.

  Args:
    timings: by scheme.
    parts: schemes of which local work and selection are told apart.
    link: nominal; the model adds its rounds and bytes to the local work.
  """
  return (
    {f'{name}: seconds': timing.seconds for name, timing in timings.items()}
    | {
      f'{name}: seconds in {what}': getattr(timings[name], f'{part}_s')
      for name in parts
      for part, what in (('local', 'local work'), ('selection', 'selection'))
    }
    | {
      f'{name}: seconds, model': timings[name].local_s
      + timings[name].link_s(link)
      for name in ('dense', *parts)
    }
  )


def _by_size(found: Sequence[Any], schemes: Schemes) -> list[dict[str, Any]]:
  return [
    dict(zip(schemes, found[i : i + len(schemes)], strict=True))
    for i in range(0, len(found), len(schemes))
  ]
