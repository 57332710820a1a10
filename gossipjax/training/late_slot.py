"""Which exchange of a strategy may run beside computing: `config.overlap`."""

import jax
from ml_collections import ConfigDict

from gossipjax.aggregator import Strategy, identity
from gossipjax.errors import UserError
from gossipjax.training import inner
from gossipjax.transforms.late import Late


def slot(strategy: Strategy) -> str | None:
  """The slot of the strategy's only exchange, if that is late; else None."""
  exchanging = [
    name
    for name in ('gradients', 'parameters', 'moments', 'state')
    if getattr(strategy, name) not in (None, identity())
  ]
  if len(exchanging) != 1:
    return None
  return exchanging[0] if getattr(strategy, exchanging[0]).late else None


def parts(strategy: Strategy) -> Late:
  """The parts of the update in that slot."""
  name = slot(strategy)
  assert name is not None
  return getattr(strategy, name).late


def check(config: ConfigDict, strategy: Strategy) -> bool:
  """Whether exchanges run beside computing.

  Args:
    config: of a run.
    strategy: of the run.

  Raises:
    UserError: they cannot, in this run.
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
      'config.overlap runs exchanges in a second thread, which was tried on '
      'CPUs only; set config.overlap=False, or JAX_PLATFORMS=cpu.'
    )
  if slot(strategy) is None and strategy.gradients.parts is None:
    raise UserError(
      f'config.overlap: strategy {config.strategy.name} waits for an exchange '
      'in the step that starts it; set config.overlap=False, take '
      'delayed_averaging, delayed_gossip, delayed_all_reduce or '
      'streaming_diloco with a delay of at least 1 step, or exchange gradients '
      'in buckets (strategy.granularity.name=layer or bucket).'
    )
  return True
