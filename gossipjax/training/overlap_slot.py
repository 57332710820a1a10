"""Which exchange of a strategy may overlap with computing: `config.overlap`."""

from typing import Any

import jax
from ml_collections import ConfigDict

from gossipjax.aggregator import Strategy, identity
from gossipjax.config import resolve
from gossipjax.errors import UserError
from gossipjax.training import inner
from gossipjax.transforms.late import Late


def slot(strategy: Strategy) -> str | None:
  """The slot of the strategy's only exchange if that is late, else None."""
  exchanging = [
    name
    for name in ('gradients', 'parameters', 'moments', 'state')
    if getattr(strategy, name) not in (None, identity())
  ]
  if len(exchanging) != 1:
    return None
  return exchanging[0] if getattr(strategy, exchanging[0]).late else None


def parts(strategy: Strategy) -> Late:
  """The parts of the late update in that slot, see transforms/late.py."""
  name = slot(strategy)
  assert name is not None
  return getattr(strategy, name).late


def check(config: ConfigDict, strategy: Strategy) -> bool:
  """Whether exchanges overlap with computing.

  Args:
    config: of a run.
    strategy: of the run.

  Raises:
    UserError: the config asks for it, but in this run they cannot overlap.
  """
  if not config.get('overlap', False):
    return False
  if config.get('cluster') or config.get('engine'):
    raise UserError(
      'config.overlap is for workers in lock-step; set config.cluster={} and '
      "config.engine='', or config.overlap=False."
    )
  if inner.devices(config) > 1:
    raise UserError(
      'config.overlap is for workers of one device; set '
      'config.devices_per_worker=0, or config.overlap=False.'
    )
  if jax.default_backend() != 'cpu':
    raise UserError(
      'config.overlap runs exchanges in a second thread, which is supported '
      'on CPUs only; set config.overlap=False, or JAX_PLATFORMS=cpu.'
    )
  if not _overlaps(strategy):
    raise UserError(
      f'config.overlap: strategy {config.strategy.name} waits for an exchange '
      f'in the step that starts it; {_remedy(config, strategy)}.'
    )
  return True


def _overlaps(strategy: Strategy) -> bool:
  return slot(strategy) is not None or strategy.gradients.parts is not None


def _remedy(config: ConfigDict, strategy: Strategy) -> str:
  """What a run of this strategy could set, else which strategies overlap."""
  changes: dict[str, dict[str, Any]] = {  # Arguments of some strategies.
    'granularity.name=layer': {'granularity': {'name': 'layer'}},
    'delay=1': {'delay': 1},
  }
  remedies = []
  for setting, change in changes.items():
    if {*change} <= {*config.strategy}:
      changed = resolve.strategy({**config.strategy, **change})
      if _overlaps(changed._replace(state=strategy.state)):
        remedies.append(f'strategy.{setting}')
  if _overlaps(strategy._replace(state=None)):
    remedies.append('config.state_period=0')
  if remedies:
    return f'set {" or ".join(remedies)}, or config.overlap=False'
  return (
    'set config.overlap=False, or take delayed_averaging, delayed_gossip, '
    'delayed_all_reduce, streaming_diloco or one whose gradients go in buckets '
    '(all_reduce, topk and others with a granularity)'
  )
