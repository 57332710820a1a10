"""Times schemes of exchange in network namespaces and keeps the times."""

import importlib.util
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.testbed import calibrate, link_shape, processes
from experiments.testbed.timing import Timing
from gossipjax.commands import console
from gossipjax.network import Link
from gossipjax.results import workdir

# By name: the strategy or exchange, and its arguments.
Schemes = Mapping[str, tuple[str, dict[str, Any]]]


def ours(
  path: pathlib.Path,
  workers: int,
  rate: str,
  sizes: Sequence[int],
  schemes: Schemes,
) -> list[dict[str, Timing]]:
  """The timings of each scheme, for each number of parameters.

  Args:
    path: where an earlier call has left them, or this one does.
    rate: of the links, see `link_shape.shape`.
  """
  exchanges = [
    (what, n, given) for n in sizes for what, given in schemes.values()
  ]
  found = _once(
    path,
    lambda: calibrate.measure(workers, link_shape.shape(rate), exchanges),
  )
  return _by_size([Timing(*timing) for timing in found], schemes)


def torch(
  path: pathlib.Path,
  workers: int,
  rate: str,
  sizes: Sequence[int],
  schemes: Schemes,
) -> list[dict[str, float | None]]:
  """The seconds of PyTorch's exchanges likewise; None if it is missing."""
  if not importlib.util.find_spec('torch'):
    return [dict.fromkeys(schemes) for _ in sizes]
  exchanges = [
    {'what': what, 'numbers': n, 'arguments': given}
    for n in sizes
    for what, given in schemes.values()
  ]
  module = 'experiments.testbed.torch_timing'
  found = _once(
    path,
    lambda: processes.measured(workers, link_shape.shape(rate), module, exchanges),
  )
  return _by_size([timing['seconds'] for timing in found], schemes)


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


def _once(path: pathlib.Path, call: Callable[[], Any]) -> Any:
  """What it returns, from the file where an earlier call has left it."""
  if not path.exists():
    console.say(f'Measuring {path.stem} ...')
    workdir.write(path, json.dumps(call()))
  return json.loads(path.read_text())
