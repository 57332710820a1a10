"""Probes: measurements inside an aggregator, while a run trains.

A probe wraps one aggregator of a strategy. Its memory is part of the workers'
state, so that it does not change the bytes that are sent. It changes results by
rounding only, because the compiled program differs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from gossipjax.aggregator import Aggregator, State, Strategy, Tree


class Probe(NamedTuple):
  """What is measured besides the records.

  Attributes:
    name: of the measurement.
    init: tree -> memory of one worker.
    update: (memory, tree, mean, state before, state after) -> memory, at each
      step; tree and mean are what the aggregator takes and returns.
    read: (memories of all workers, on the host) -> numbers by name.
    side: which aggregator of the strategy, 'gradients' or 'parameters'.
  """

  name: str
  init: Callable[[Tree], Any]
  update: Callable[..., Any]
  read: Callable[[Any], dict[str, float]]
  side: str = 'gradients'


class Probed(NamedTuple):
  """State of an aggregator with a probe.

  Attributes:
    inner: state of the aggregator.
    memory: of the probe.
  """

  inner: State
  memory: Any


def probed(aggregator: Aggregator, probe: Probe) -> Aggregator:
  """The same aggregator, with a probe."""

  def init(tree):
    return Probed(aggregator.init(tree), probe.init(tree))

  def update(tree, state, step, active=True):
    mean, inner, sent = aggregator.update(tree, state.inner, step, active)
    memory = probe.update(state.memory, tree, mean, state.inner, inner)
    return mean, Probed(inner, memory), sent

  return Aggregator(init, update)


def with_probe(strategy: Strategy, probe: Probe) -> Strategy:
  """The same strategy, with a probe in one of its aggregators."""
  aggregator = getattr(strategy, probe.side)
  return strategy._replace(**{probe.side: probed(aggregator, probe)})


def read_probe(workers: Any, probe: Probe) -> dict[str, float]:
  """The probe's numbers.

  Args:
    workers: a `Worker`, leaves [workers, ...].
    probe: the probe of the workers' strategy.
  """
  state = getattr(workers, probe.side)
  return probe.read(jax.device_get(state.memory))
