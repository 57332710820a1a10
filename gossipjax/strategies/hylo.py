"""Hylo: a compressor for each kind of layer, through a parameter server.

  a_i = g_i + e_i,    g <- 1/P sum_i C_l(a_i),    e_i <- a_i - C_l(a_i)

where C_l depends on layer l of n_l entries:

  convolution      keeps the filters with the largest mean |a|, a share of
                   r_l = r_max (N / n_l)^gamma, clipped to r_min and r_max
  fully connected  2 bits: t for a >= t, -t for a <= -t, t = c mean |a|
  below N entries  uncompressed, as are biases and norms of any size

Each worker serves a share of every layer: it receives that share from all
workers, compressed, and sends the mean to all, dense, as published.

J. Peng, Hylo, a thesis of 2021; not public: this follows its summary.
"""

from typing import NamedTuple

import jax
from jax import lax

from gossipjax import collectives, norms
from gossipjax.aggregator import Aggregator, Strategy, Tree, identity
from gossipjax.compressors import layers
from gossipjax.errors import UserError, nearest
from gossipjax.servers import layerwise_server


class HyloState(NamedTuple):
  residual: Tree  # f32, like the gradients; 0 where all entries travel.


UNITS = {'filter': layers.filters, 'slice': layers.slices}
PULL = ('dense', 'compressed')
OPTIONS = {'unit': [*UNITS], 'level': [*layers.LEVELS], 'pull': [*PULL]}


class Gate(NamedTuple):
  """Which layers are compressed, and how; fields as arguments of `strategy`."""

  min_size: int
  unit: str
  level: str
  factor: float
  max_rate: float
  min_rate: float
  exponent: float

  def opens(self, x: jax.Array) -> bool:
    return x.ndim > 1 and x.size >= self.min_size

  def layer(self, x: jax.Array, n: int) -> layers.Layer:
    if x.ndim == 2:
      return layers.codes(x.shape, n, self.factor, self.level)
    rate = self.max_rate * (self.min_size / x.size) ** self.exponent
    rate = min(max(rate, self.min_rate), self.max_rate)
    return UNITS[self.unit](x.shape, n, rate)


def hylo_mean(gate: Gate, twice: bool) -> Aggregator:
  """The mean of the workers' trees, with large layers compressed on the way to
  the servers and, if `twice`, also on the way back."""

  def init(tree):
    norms.needs_floats(tree)
    leaves = jax.tree.leaves(tree)
    if not any(map(gate.opens, leaves)):
      largest = max((x.size for x in leaves if x.ndim > 1), default=0)
      raise UserError(
        f'min_size={gate.min_size} of hylo is above the {largest} entries of '
        'the largest weight; nothing would be compressed.'
      )
    return HyloState(norms.zeros(tree))

  def update(tree, state, step, active=True):
    del step
    collectives.needs_everyone(active)
    n = lax.axis_size(collectives.axis())
    leaves, treedef = jax.tree.flatten(tree)
    residuals = jax.tree.leaves(state.residual)
    large = [i for i, x in enumerate(leaves) if gate.opens(x)]
    small = [i for i, x in enumerate(leaves) if not gate.opens(x)]
    wanted = [leaves[i] + residuals[i] for i in large]
    codecs = [gate.layer(x, n) for x in wanted]
    types = [leaves[i].dtype for i in large]
    means, withheld, cost = layerwise_server.mean(wanted, codecs, types, twice)
    # A dense push and pull of shares is a ring all-reduce.
    totals, _, sent = collectives.all_reduce([leaves[i] for i in small])
    for i, mean, rest in zip(large, means, withheld, strict=True):
      leaves[i], residuals[i] = mean, rest
    for i, total in zip(small, totals, strict=True):
      leaves[i] = total / n
    residual = treedef.unflatten(residuals)
    return treedef.unflatten(leaves), HyloState(residual), sent + cost

  return Aggregator(init, update)


def strategy(
  min_size: int = 1024,
  unit: str = 'filter',
  level: str = 'threshold',
  factor: float = 1.0,
  max_rate: float = 0.5,
  min_rate: float = 0.01,
  exponent: float = 0.5,
  pull: str = 'dense',
) -> Strategy:
  """Args:
  min_size: N, entries of the smallest layer that is compressed.
  unit: what convolutions keep, a `filter` or `slice` (of one input channel).
  level: value of a 2-bit code, `threshold` t (as published) or `mean` of |a|
    above t (ours: t removes at most t per step from a residual).
  factor: c > 0, the threshold over the mean magnitude.
  max_rate, min_rate, exponent: 0 < r_min <= r_max <= 1, gamma >= 0.
  pull: what servers send: `dense` as published, or `compressed` (ours).
  """
  for key, value in {'unit': unit, 'level': level, 'pull': pull}.items():
    if value not in OPTIONS[key]:
      remedy = nearest(value, OPTIONS[key])
      raise UserError(f'{key}={value} of hylo is unknown{remedy}')
  is_valid = min_size >= 0 and factor > 0 and exponent >= 0
  if not (is_valid and 0 < min_rate <= max_rate <= 1):
    raise UserError(
      'hylo takes min_size, exponent >= 0, factor > 0 and 0 < min_rate <= '
      f'max_rate <= 1, got {(min_size, exponent, factor, min_rate, max_rate)}.'
    )
  gate = Gate(min_size, unit, level, factor, max_rate, min_rate, exponent)
  return Strategy(hylo_mean(gate, pull == 'compressed'), identity())
