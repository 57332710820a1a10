"""On which machines workers run: `config.cluster` and `config.engine`."""

import inspect
import math
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from gossipjax.aggregator import Strategy
from gossipjax.config import arguments
from gossipjax.errors import UserError, nearest, require
from gossipjax.network import Link
from gossipjax.simulation.cluster import Cluster, cluster
from gossipjax.simulation.cluster_checks import check_passing
from gossipjax.training import inner

ENGINES = ('ray',)
# Keys of config.cluster that only virtual time reads.
_LINKS = ('latency_s', 'bytes_per_s', 'full_duplex', 'server', 'serial')
_MODELLED = (*_LINKS, 'timeout_s')


def engine(config: ConfigDict, given: bool) -> str:
  """The name of `config.engine`; '' for none.

  Args:
    config: of a run.
    given: whether Python objects replace what the config names.

  Raises:
    UserError: there is no such engine, or it is not installed; or its processes
      could not receive the objects; or a worker has several devices.
  """
  name = config.get('engine', '')
  if not name:
    return ''
  if name not in ENGINES:
    raise UserError(f'engine={name} is unknown{nearest(name, ENGINES)}')
  if given:
    raise UserError(
      f'engine={name} starts processes that receive only the config, no Python '
      'objects; name task and strategy in the config, your own ones as '
      "'module:function'."
    )
  if inner.devices(config) > 1:
    raise UserError(
      f'engine={name} gives each worker one device; set devices_per_worker=0.'
    )
  require(name)
  return name


def of_config(
  config: ConfigDict, link: Link, strategy: Strategy
) -> Cluster | None:
  """The machines of `config.cluster`; None if workers run in lock-step.

  Args:
    config: of a run.
    link: of `config.link`.
    strategy: of the run.

  Raises:
    UserError: the strategy cannot run on them.
  """
  engine = config.get('engine', '')
  if not config.get('cluster') and not engine:
    return None
  # In real time, steps are not delayed unless the config's cluster says so.
  settings = config.get('cluster') or {'step_s': 0.0}
  result = arguments.call(
    cluster, settings, 'cluster', config.workers, config.steps, link
  )
  if engine:
    _check_modelled(engine, settings)
    _check_trace(config, result)
  elif result.trace is None:
    link = result.link
    check_passing(
      result.step_s, result.asynchronous, link.latency_s, link.bytes_per_s
    )
  if engine and not result.asynchronous:
    raise UserError(
      f'engine={engine} runs workers that do not wait for each other; set '
      "cluster.asynchronous=True, or engine=''."
    )
  if result.asynchronous and strategy.async_exchange is None:
    remedy = "engine=''" if engine else 'cluster.asynchronous=False'
    raise UserError(
      f'strategy {config.strategy.name} needs all workers at once; '
      f'set {remedy}; a single variant may set it, too.'
    )
  if result.asynchronous and strategy.state is not None:
    raise UserError(
      'config.state_period averages model states over all workers at once, and '
      'asynchronous workers do not wait for each other; set it to 0, or '
      'cluster.asynchronous=False.'
    )
  return result


def _check_trace(config: ConfigDict, machines: Cluster) -> None:
  """Rejects a trace at whose end workers would wait for one that has left."""
  if machines.trace is None:
    return
  left = {worker for worker, _, until in machines.outages if until == math.inf}
  staying, length = config.workers - len(left), len(machines.trace)
  if staying * length < config.workers * config.steps:
    raise UserError(
      f'cluster.trace has {length} steps; if cluster.failures leave {staying} '
      f'of {config.workers} workers, these need '
      f'{-(-config.workers * config.steps // staying)}.'
    )


def _check_modelled(engine: str, settings: Mapping[str, Any]) -> None:
  for key in _MODELLED:
    default = inspect.signature(cluster).parameters[key].default
    if (value := settings.get(key)) not in (None, default):
      raise UserError(
        f'cluster.{key}={value} has no effect with engine={engine}, where links'
        f" are real; leave it at {default}, or set engine=''."
      )
