"""Without gradients workers reach consensus, and exchanges keep their mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gossipjax import executors, norms
from gossipjax.config import resolve

P, SIZE, STEPS = 4, 24, 1000
# Strategies at their defaults, and with delays at which a difference could be
# corrected twice.
CONSENSUS = {
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


@pytest.mark.parametrize('name', CONSENSUS)
def test_workers_without_gradients_reach_their_mean(name):
  given = CONSENSUS[name]
  config = resolve.strategy_config(name.split(',')[0], **given)
  parameters = resolve.strategy(config).parameters
  x = np.random.default_rng(0).standard_normal((P, SIZE)).astype('f4')
  mean = x.mean(axis=0)
  tree = lambda rows: {'a': rows[:, :20].reshape(P, 4, 5), 'b': rows[:, 20:]}
  begin = tree(np.broadcast_to(mean, x.shape))  # Memories begin at the mean.
  state = executors.on_one_device(parameters.init)(begin)
  update = executors.on_one_device(parameters.update)
  found = tree(x)
  for t in range(STEPS):
    found, state, _ = update(found, state, step=jnp.int32(t))
  for part, wanted in zip(
    jax.tree.leaves(found), jax.tree.leaves(begin), strict=True
  ):
    np.testing.assert_allclose(part, wanted, atol=3e-3)


# How far rounding may move the mean in a thousand exchanges, where entries are
# about 1 and steps about 0.02.
DRIFT = {'float32': 2e-5, 'bfloat16': 0.2}
MEMORIES = {
  'choco': {},
  'd2': {},
  'd2, complete': {'lazy': False, 'topology': 'complete'},
}


@pytest.mark.parametrize('dtype', DRIFT)
@pytest.mark.parametrize('name', ['gossip', *MEMORIES])
def test_the_mean_drifts_no_further_than_rounding_explains(name, dtype):
  config = resolve.strategy_config(name.split(',')[0], **MEMORIES.get(name, {}))
  mix = resolve.strategy(config).parameters
  rng = np.random.default_rng(0)
  begin = np.broadcast_to(rng.standard_normal(SIZE), (P, SIZE))
  steps = 0.02 * rng.standard_normal((P, STEPS, SIZE))

  def turn(worker, at):
    x, state, moved = worker
    local = x + at[1]
    x, state, _ = mix.update(local, state, at[0])
    return (x, state, moved + (norms.widened(x) - norms.widened(local))), ()

  def train(x, steps):
    numbers = jnp.arange(STEPS)
    worker = x, mix.init(x), jnp.zeros(SIZE)
    return lax.scan(turn, worker, (numbers, steps))[0][2]

  moved = executors.on_one_device(train)(
    jnp.asarray(begin, dtype), jnp.asarray(steps, dtype)
  )
  np.testing.assert_allclose(moved.mean(axis=0), 0, atol=DRIFT[dtype])


@pytest.mark.parametrize('dtype, most', [('float32', 2e-6), ('bfloat16', 0.02)])
def test_the_mean_of_estimates_is_the_mean_gradient_at_every_step(dtype, most):
  track = resolve.strategy({'name': 'gradient_tracking'}).gradients
  gradients = np.random.default_rng(0).standard_normal((P, STEPS, SIZE))

  def turn(state, at):
    estimate, state, _ = track.update(at[1], state, at[0])
    return state, estimate

  def train(gradients):
    steps = jnp.arange(STEPS), gradients
    return lax.scan(turn, track.init(gradients[0]), steps)[1]

  given = jnp.asarray(gradients, dtype)
  found = executors.on_one_device(train)(given)
  mean = lambda x: np.asarray(x, np.float64).mean(axis=0)
  np.testing.assert_allclose(mean(found), mean(given), atol=most)
