"""Norms are computed in float32, also by DGC and by a trigger."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import collectives, norms, triggers
from gossipjax.strategies import dgc


@pytest.mark.parametrize('dtype', ['float16', 'bfloat16', 'float32'])
def test_a_norm_neither_overflows_nor_loses_its_small_terms(dtype):
  tree = {'large': jnp.full(4, 300.0, dtype), 'small': jnp.ones(5000, dtype)}
  found = norms.norm(tree)
  assert found.dtype == jnp.float32
  assert float(found) == pytest.approx((4 * 300**2 + 5000) ** 0.5, rel=1e-3)
  opposite = {k: -v for k, v in tree.items()}
  distance = float(norms.distance(tree, opposite))
  assert distance == pytest.approx(2 * float(found), rel=1e-6)


def test_a_norm_in_float32_is_that_of_optax_to_the_last_bit():
  tree = [
    jnp.asarray(np.random.default_rng(i).standard_normal(n, np.float32))
    for i, n in enumerate((3, 1000, 77))
  ]
  assert norms.norm(tree) == optax.tree.norm(tree)


def test_dgc_clips_a_large_gradient_of_float16_and_sends_it():
  aggregator = dgc.strategy(density=0.5, clip=4.0).gradients
  tree = {'w': np.full((4, 64), 300, np.float16)}

  def once(tree):
    return aggregator.update(tree, aggregator.init(tree), jnp.int32(0))[0]

  found = jax.vmap(once, axis_name=collectives.WORKERS)(tree)
  # 64 equal entries with a norm of 4 / sqrt(4) are 0.25; half of them are sent.
  sent = np.sort(np.asarray(found['w'][0], np.float32))
  np.testing.assert_allclose(sent, [0.0] * 32 + [0.25] * 32, rtol=1e-2)


def test_norm_slope_measures_the_norm_of_bfloat16_in_float32():
  trigger = triggers.norm_slope(warmup=0)
  part = jnp.ones(4096, jnp.bfloat16)
  memory = trigger.init(part)
  _, memory = trigger.update(part * 2, memory, 0, 0)
  assert memory.norm == 128 and memory.sent == 64
