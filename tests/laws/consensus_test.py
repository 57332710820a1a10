"""Without gradients, workers that exchange parameters come to agree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossipjax import executors
from gossipjax.config import resolve

P, SIZE, STEPS = 4, 24, 1000
# Strategies at their defaults, and where a delay could correct twice.
AGREE = {
  'choco': {'stepsize': 0.1},  # With 0.3 and 2 of 24 entries it diverges.
  'd2': {},
  'delayed_averaging': {},
  'delayed_averaging, late': {'period': 2, 'delay': 5},
  'delayed_gossip': {},
  'delayed_gossip, late': {'delay': 4},
  'gossip': {},
  'gradient_tracking': {},
  'hierarchical': {},
  'local_sgd': {},
  'pairwise_gossip': {},
  'parameter_server': {},
  'push_sum': {},
  'relay_sgd': {},
  'sparta': {'density': 0.1},
}
pytestmark = pytest.mark.usefixtures('compile_quickly')


@pytest.mark.parametrize('name', AGREE)
def test_workers_that_no_gradient_drives_apart_reach_their_mean(name):
  given = AGREE[name]
  config = resolve.strategy_config(name.split(',')[0], **given)
  parameters = resolve.strategy(config).parameters
  x = np.random.default_rng(0).standard_normal((P, SIZE)).astype('f4')
  mean = x.mean(axis=0)
  tree = lambda rows: {'a': rows[:, :20].reshape(P, 4, 5), 'b': rows[:, 20:]}
  begin = tree(np.broadcast_to(mean, x.shape))  # All begin at the same point.
  state = executors.on_one_device(parameters.init)(begin)
  update = executors.on_one_device(parameters.update)
  found = tree(x)
  for t in range(STEPS):
    found, state, _ = update(found, state, step=jnp.int32(t))
  for part, wanted in zip(
    jax.tree.leaves(found), jax.tree.leaves(begin), strict=True
  ):
    np.testing.assert_allclose(part, wanted, atol=3e-3)
