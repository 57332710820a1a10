"""Traffic per parameter of one period of methods that train between sites."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import compressors
from gossipjax.advice import step_traffic
from gossipjax.aggregator import Strategy
from gossipjax.strategies import (
  all_reduce,
  d2,
  decoupled_diloco,
  delayed_averaging,
  demo,
  des_loc,
  diloco,
  gossip,
  gradient_tracking,
  gtopk,
  hierarchical,
  local_sgd,
  noloco,
  parameter_server,
  relay_sgd,
  slowmo,
  sparse_loco,
  sparta,
  streaming_diloco,
  topk,
)

# The model whose traffic is counted: square layers, large enough that shares of
# 256 workers are whole blocks of every codec.
LAYERS, WIDTH = 8, 1024
ENTRIES = LAYERS * WIDTH**2
FOUR = compressors.linear(4)


class Method(NamedTuple):
  """A strategy, and what its traffic does not show.

  Attributes:
    strategy: of the workers.
    period: steps after which its traffic repeats.
    overlap_steps: steps of computation that its exchange can overlap with.
  """

  strategy: Strategy
  period: int = 1
  overlap_steps: int = 1


METHODS = {
  'all_reduce': Method(all_reduce.strategy()),
  'parameter_server': Method(parameter_server.strategy()),
  'topk, density 0.01': Method(topk.strategy(0.01)),
  'gtopk, density 0.01': Method(gtopk.strategy(0.01, exchange='butterfly')),
  'gossip on a ring': Method(gossip.strategy()),
  'demo': Method(demo.strategy()),
  'sparta': Method(sparta.strategy()),
  'local_sgd, period 8': Method(local_sgd.strategy(), 8),
  'des_loc, periods 64, 192, 384': Method(des_loc.strategy(64, 192, 384), 384),
  'diloco, period 100': Method(diloco.strategy(100), 100),
  'hierarchical, between pairs, period 100': Method(
    hierarchical.strategy(2, 100), 100
  ),
  'diloco, period 100, 4 bits gathered': Method(
    diloco.strategy(100, compressor=FOUR), 100
  ),
  'diloco, period 100, 4 bits in two shots': Method(
    diloco.strategy(100, compressor=FOUR, exchange='two_shot'), 100
  ),
  'streaming_diloco, period 100, 4 bits in two shots': Method(
    streaming_diloco.strategy(
      100, LAYERS, 5, compressor=FOUR, exchange='two_shot'
    ),
    100,
    overlap_steps=5,
  ),
  'sparse_loco, period 30': Method(sparse_loco.strategy(), 30),
  'noloco, period 50': Method(noloco.strategy(), 50),
  'decoupled_diloco, period 24': Method(
    decoupled_diloco.strategy(fragments=LAYERS, delay=2), 24, overlap_steps=2
  ),
  'slowmo, period 48, local_period 48': Method(slowmo.strategy(48, 48), 48),
  'delayed_averaging, delay 1': Method(delayed_averaging.strategy()),
  'd2 on a ring': Method(d2.strategy()),
  'gradient_tracking on a ring': Method(gradient_tracking.strategy()),
  'relay_sgd on a chain': Method(relay_sgd.strategy()),
}


class Bill(NamedTuple):
  """Traffic of the steps of one period, f64[workers, period].

  Attributes:
    bytes: bytes sent per parameter; between groups only if workers form groups.
    rounds: sequential rounds of these sends.
    path_bytes: bytes on the busiest link of these rounds, per parameter.
  """

  bytes: np.ndarray
  rounds: np.ndarray
  path_bytes: np.ndarray


@functools.cache
def bill(name: str, workers: int) -> Bill:
  """Returns the traffic of a method's second period; in its first period not
  all fragments are sent.

  Raises:
    ValueError: the method's traffic depends on gradients.
  """
  method = METHODS[name]
  shape = jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32)
  params = {f'layer{i}': {'kernel': shape} for i in range(LAYERS)}
  traffic = step_traffic.per_step(
    method.strategy, params, workers, range(2 * method.period)
  )
  if not traffic.exact:
    raise ValueError(f'The traffic of {name} depends on gradients.')
  sent = traffic.sent
  between = lambda total, local: (
    np.asarray(total, float) - np.asarray(local, float)
  )[:, method.period :]
  return Bill(
    between(sent.bytes, sent.local) / ENTRIES,
    between(sent.rounds, sent.local_rounds),
    between(sent.path_bytes, sent.local_path_bytes) / ENTRIES,
  )
