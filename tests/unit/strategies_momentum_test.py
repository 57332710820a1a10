"""DGC and PowerSGD are equal to references in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossipjax import executors
from gossipjax.compressors.selections import exact, reused, sampled
from gossipjax.errors import UserError
from gossipjax.strategies import dgc, power_sgd

SIZE = 400


def gaussians(workers, seed=0, shape=(SIZE,)):
  rng = np.random.default_rng(seed)
  return rng.normal(size=(workers, *shape)).astype('f4')


def play(strategy, trees):
  update = executors.on_one_device(
    lambda g, s, step: strategy.gradients.update(g, s, step)
  )
  state = executors.on_one_device(strategy.gradients.init)(trees[0])
  for step, tree in enumerate(trees):
    tree = jax.tree.map(jnp.asarray, tree)
    answer, state, sent = update(tree, state, step=jnp.int32(step))
    yield jax.device_get((answer, state)) + (int(sent.bytes[0]),)


def largest(x, k):
  return np.argsort(-np.abs(x), kind='stable')[:k]


@pytest.mark.exhaustive
@pytest.mark.parametrize('workers', [2, 4])
@pytest.mark.parametrize('nesterov', [False, True])
@pytest.mark.parametrize('clip', [None, 5.0])
def test_dgc_sends_the_largest_velocities_and_masks_them(
  workers, nesterov, clip
):
  gradients = [gaussians(workers, seed) for seed in range(4)]
  strategy = dgc.strategy(density=0.05, nesterov=nesterov, clip=clip)
  u, v = np.zeros((2, workers, SIZE))
  for g, (answer, state, _) in zip(
    gradients, play(strategy, gradients), strict=True
  ):
    if clip is not None:
      norm = np.linalg.norm(g, axis=1, keepdims=True)
      g = g * np.minimum(1, clip / np.sqrt(workers) / norm)
    u = 0.9 * (u + g) if nesterov else 0.9 * u + g
    v = v + u + g if nesterov else v + u
    owed, mean = v.sum(axis=0), np.zeros(SIZE)
    for i in range(workers):
      k = largest(v[i], 20)
      mean[k] += v[i, k] / workers
      u[i, k] = v[i, k] = 0
    np.testing.assert_allclose(answer[0], mean, atol=1e-5)
    np.testing.assert_allclose(state.residual, v, atol=1e-5)
    np.testing.assert_allclose(state.velocity, u, atol=1e-5)
    # All that entered v is applied or still in v.
    np.testing.assert_allclose(
      workers * answer[0] + state.residual.sum(axis=0), owed, atol=1e-4
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize('selection', [exact, sampled, reused])
def test_dgc_without_momentum_loses_nothing(selection):
  gradients = [gaussians(3, seed) for seed in range(4)]
  total = np.zeros(SIZE)
  for g, (answer, state, _) in zip(
    gradients,
    play(
      dgc.strategy(
        density=0.05, own_momentum=0.0, selection=selection.selection()
      ),
      gradients,
    ),
    strict=True,
  ):
    total += g.sum(axis=0) - 3 * answer[0]
    np.testing.assert_allclose(state.residual.sum(axis=0), total, atol=1e-4)


def step_by_hand(wanted, q):
  """One step of the paper's algorithm 1, with NumPy's orthogonalisation."""
  p, _ = np.linalg.qr((wanted @ q).mean(axis=0))
  q = (wanted.swapaxes(1, 2) @ p).mean(axis=0)
  return p @ q.T, q


@pytest.mark.exhaustive
@pytest.mark.parametrize('workers', [2, 3])
def test_power_sgd_is_a_warm_started_power_iteration_per_step(workers):
  shapes = {'kernel': (3, 3, 4, 20), 'bias': (20,), 'thin': (2, 3)}
  trees = [
    {name: gaussians(workers, seed, shape) for name, shape in shapes.items()}
    for seed in range(4)
  ]
  strategy = power_sgd.strategy(rank=2)
  start = {name: jnp.zeros(shape) for name, shape in shapes.items()}
  (q,) = strategy.gradients.init(start).q
  residual = np.zeros((workers, 36, 20))
  for tree, (answer, state, _) in zip(
    trees, play(strategy, trees), strict=True
  ):
    wanted = tree['kernel'].reshape(workers, 36, 20) + residual
    mean, q = step_by_hand(wanted, np.asarray(q))
    residual = wanted - mean
    np.testing.assert_allclose(
      answer['kernel'][0], mean.reshape(3, 3, 4, 20), atol=1e-4
    )
    np.testing.assert_allclose(
      state.residual['kernel'].reshape(residual.shape), residual, atol=1e-4
    )
    for name in 'bias', 'thin':
      np.testing.assert_allclose(
        answer[name][0], tree[name].mean(axis=0), atol=1e-6
      )


def test_a_mean_of_low_rank_is_exact_and_the_residuals_add_up_to_zero():
  left, right = gaussians(1, 0, (30, 2))[0], gaussians(1, 1, (2, 40))[0]
  tree = np.stack([left @ right, 3 * left @ right])
  ((answer, state, _),) = play(power_sgd.strategy(rank=2), [tree])
  np.testing.assert_allclose(answer[0], 2 * left @ right, atol=1e-4)
  assert np.abs(state.residual.sum(axis=0)).max() < 1e-4


def test_power_sgd_recovers_from_a_step_of_zero_gradients():
  still, moving = np.zeros((2, 30, 40), 'f4'), gaussians(2, 0, (30, 40))
  fresh = next(iter(play(power_sgd.strategy(), [moving])))[0]
  *_, (late, _, _) = play(power_sgd.strategy(), [still, moving])
  np.testing.assert_allclose(late, fresh, atol=1e-5)
  assert np.abs(late).max() > 0


def test_columns_are_orthonormal_or_zero_if_redundant():
  p = gaussians(1, 0, (50, 4))[0]
  p[:, 2] = 2 * p[:, 0] - p[:, 1]
  q = np.asarray(power_sgd.orthonormal(jnp.asarray(p)))
  np.testing.assert_allclose(q.T @ q, np.diag([1, 1, 0, 1]), atol=1e-5)


def test_power_sgd_bills_the_sums_of_both_factors():
  tree = {'m': gaussians(4, 0, (30, 40)), 'v': gaussians(4, 1, (7,))}
  ((_, _, sent),) = play(power_sgd.strategy(rank=2), [tree])
  ring = lambda entries: 2 * 3 * 4 * entries // 4
  assert sent == ring(30 * 2 + 7) + ring(40 * 2)


@pytest.mark.parametrize(
  'make',
  [
    lambda: dgc.strategy(own_momentum=1.0),
    lambda: dgc.strategy(clip=0.0),
    lambda: dgc.strategy(density=0.0),
    lambda: power_sgd.strategy(rank=0),
  ],
)
def test_impossible_settings_are_refused(make):
  with pytest.raises(UserError):
    make()
