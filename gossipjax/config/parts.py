"""Parts: arguments that a config gives as a name with arguments of its own."""

import importlib
import inspect
import pkgutil
import types
from collections.abc import Callable

from gossipjax import compressors, strategies, topology, triggers
from gossipjax.aggregator import Strategy
from gossipjax.compressors import selections
from gossipjax.transforms import granularity, outer_optimizers, warmup


def topologies(seed: int = 0) -> dict[str, topology.Topology]:
  """The topologies of topology.py, by name, with their default arguments.

  Args:
    seed: of those that are random.
  """
  found = {}
  for name, f in inspect.getmembers(topology, inspect.isfunction):
    signature = inspect.signature(f)
    kind = signature.return_annotation
    if kind == topology.Topology:
      found[name] = f(seed=seed) if 'seed' in signature.parameters else f()
    elif kind == tuple[topology.Round, ...] and not name.startswith('_'):
      found[name] = f
  return found


def _makers(kind: type, module: types.ModuleType) -> dict[str, Callable]:
  """The public functions of a module that return a part of a kind, by name."""
  return {
    name: function
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if inspect.signature(function).return_annotation is kind
  }


def _selections() -> dict[str, Callable[..., selections.Selection]]:
  return {
    m.name: importlib.import_module(f'{selections.__name__}.{m.name}').selection
    for m in pkgutil.iter_modules(selections.__path__)
  }


def _levels() -> dict[str, Callable[..., Strategy]]:
  """The strategies that can be a level of another one: those without levels and
  without a `rate`, since a level does not know the optimizer's schedule."""
  found = {}
  for m in pkgutil.iter_modules(strategies.__path__):
    file = importlib.import_module(f'{strategies.__name__}.{m.name}')
    parameters = inspect.signature(file.strategy).parameters
    levels = (p for p in parameters.values() if p.annotation is Strategy)
    if 'rate' not in parameters and not any(levels):
      found[m.name] = file.strategy
  return found


# For each kind of part that a config names, the functions that make one.
PARTS = {selections.Selection: _selections(), Strategy: _levels()} | {
  kind: _makers(kind, module)
  for kind, module in (
    (compressors.Compressor, compressors),
    (triggers.Trigger, triggers),
    (granularity.Granularity, granularity),
    (outer_optimizers.OuterOptimizer, outer_optimizers),
    (warmup.Warmup, warmup),
  )
}
