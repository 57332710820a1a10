"""Growth of a 2-bit codec's residual where one coordinate is large.

A code stands for +-t, so that a step removes at most t from a residual. Where
the mean gradient is larger than t, the residual grows. MXNet's t is fixed;
Hylo's t is a multiple c of the mean magnitude, residuals included, and so grows
with the residual. With decode level `mean` a code stands for the mean of |a|
above t instead.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.framework import claim, numerics
from experiments.framework.result_store import ResultStore
from gossipjax import compressors, executors
from gossipjax.aggregator import Aggregator
from gossipjax.strategies import compressed, hylo

SHAPE, STEPS = (64, 32), 20_000
MEANS = (2.0, 10.0)  # Of the large coordinate, in standard deviations.
LEVELS = ('fixed', 'threshold', 'mean')
FACTORS = (0.5, 0.8, 1.0, 1.25, 2.0)  # c: thresholds in mean magnitudes.


def table(kept: ResultStore) -> list[dict[str, Any]]:
  """The rows of `measure`, computed once."""
  key = {
    'shape': SHAPE,
    'steps': STEPS,
    'means': MEANS,
    'levels': LEVELS,
    'factors': FACTORS,
    'numerics': numerics.versions({'strategy': {'name': 'hylo'}}),
  }
  return kept.get_or_compute('residual_growth', key, measure)


def measure(factors=FACTORS, steps: int = STEPS) -> list[dict[str, Any]]:
  """Returns a row per decode level, threshold and mean gradient.

  Growth is the slope per step of the large coordinate's residual in the last
  quarter of the run, over its mean gradient: 1 if nothing is ever sent, 0 if
  the residual stays bounded. The residual is given in mean gradients, hence in
  steps of delay.
  """
  return [
    _row(level, factor, mean, steps)
    for level, factor, mean in itertools.product(LEVELS, factors, MEANS)
  ]


def _codec(level: str, factor: float) -> Aggregator:
  if level == 'fixed':
    normal = (2 / np.pi) ** 0.5  # The mean magnitude without any residual.
    return compressed.compressed_mean(compressors.two_bit(factor * normal))
  return hylo.strategy(min_size=1, level=level, factor=factor).gradients


def _row(level: str, factor: float, mean: float, steps: int) -> dict[str, Any]:
  codec = _codec(level, factor)

  @executors.on_one_device
  def run(key):

    def step(state, t):
      gradient = jax.random.normal(jax.random.fold_in(key, t), SHAPE)
      _, state, _ = codec.update(
        gradient.at[0, 0].add(mean), state, jnp.int32(0)
      )
      return state, state.residual.reshape(-1)[0]

    begin = codec.init(jnp.zeros(SHAPE))
    return jax.lax.scan(step, begin, jnp.arange(steps))[1]

  residuals = np.abs(run(jax.random.split(jax.random.key(0), 1))[0]) / mean
  tail = residuals[3 * steps // 4 :]
  growth = np.polyfit(np.arange(len(tail)), tail, 1)[0]
  return {
    'decode level': level,
    'threshold in mean magnitudes': factor,
    'mean gradient': mean,
    'residual growth': float(growth),
    'residual': float(tail[-1]),
  }


def sentence(growth: claim.Rows) -> str:
  """Describes the limit of each codec in words."""
  of = lambda level: [row for row in growth if row['decode level'] == level]
  endless = lambda level: sum(
    row['residual growth'] > 0.05 for row in of(level)
  )
  delay = lambda level: claim.span(of(level), 'residual', '.2g')
  return (
    'Limit of codecs that decode to +-t: with a fixed threshold the residual '
    'of a coordinate with a large mean gradient grows without end in '
    f'{endless("fixed")} of {len(of("fixed"))} cases, with the threshold of '
    f'Hylo, that grows with it, in {endless("threshold")}; it then holds '
    f"{delay('threshold')} steps' worth of gradient, and {delay('mean')} with "
    'the mean above t.'
  )
