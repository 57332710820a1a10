"""One-bit, random and outer strategies are equal to references in NumPy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import compressors, executors
from gossipjax.config import resolve
from gossipjax.errors import UserError
from gossipjax.strategies import (
  choco,
  compressed,
  dgc,
  diloco,
  double_squeeze,
  ef_sign,
  hylo,
  local_sgd,
  power_sgd,
  qsgd,
  random_k,
  sparse_loco,
  union_topk,
)
from gossipjax.transforms import outer_optimizers

pytestmark = pytest.mark.usefixtures('compile_quickly')

SIZE = 120


def gaussians(workers, seed=0, shape=(SIZE,)):
  rng = np.random.default_rng(seed)
  return rng.normal(size=(workers, *shape)).astype('f4')


def play(aggregator, trees, state_of=None):
  """Yields results, states and worker 0's bytes; `state_of` sets the memory."""
  update = executors.on_one_device(
    lambda tree, state, step: aggregator.update(tree, state, step)
  )
  start = trees[0] if state_of is None else state_of
  state = executors.on_one_device(aggregator.init)(
    jax.tree.map(jnp.asarray, start)
  )
  for step, tree in enumerate(trees):
    tree = jax.tree.map(jnp.asarray, tree)
    answer, state, sent = update(tree, state, step=jnp.int32(step))
    yield jax.device_get((answer, state)) + (int(sent.bytes[0]),)


@pytest.mark.parametrize('workers', [2, 3])
def test_ef_sign_scales_every_layer_by_its_own_magnitude(workers):
  shapes = {'a': (SIZE,), 'b': (5, 8)}
  trees = [
    {
      k: 10 ** len(shape) * gaussians(workers, seed, shape)
      for k, shape in shapes.items()
    }
    for seed in range(3)
  ]
  residual = {k: np.zeros_like(x) for k, x in trees[0].items()}
  for tree, (answer, state, sent) in zip(
    trees, play(ef_sign.strategy().gradients, trees), strict=True
  ):
    for k, x in tree.items():
      wanted = (x + residual[k]).reshape(workers, -1)
      message = np.sign(wanted) * np.abs(wanted).mean(axis=1, keepdims=True)
      residual[k] = (wanted - message).reshape(x.shape)
      np.testing.assert_allclose(
        answer[k][0], message.mean(axis=0).reshape(shapes[k]), atol=1e-4
      )
      np.testing.assert_allclose(state.residual[k], residual[k], atol=1e-4)
    assert sent == (workers - 1) * (15 + 5 + 2 * 4)


@pytest.mark.parametrize('workers', [2, 4])
def test_random_k_is_the_exact_mean_of_drawn_entries(workers):
  gradients = [gaussians(workers, seed) for seed in range(3)]
  residual, sets = np.zeros((workers, SIZE)), []
  for g, (answer, state, sent) in zip(
    gradients,
    play(random_k.strategy(density=0.1).gradients, gradients),
    strict=True,
  ):
    wanted, chosen = g + residual, answer[0] != 0
    np.testing.assert_allclose(
      answer[0], np.where(chosen, wanted.mean(axis=0), 0), atol=1e-6
    )
    residual = np.where(chosen[None], 0, wanted)
    np.testing.assert_allclose(state.residual, residual, atol=1e-6)
    assert chosen.sum() == 12 and sent == 2 * (workers - 1) * 48 // workers
    sets.append(set(np.flatnonzero(chosen)))
  assert sets[0] != sets[1]


RANDOM = compressors.random_k(0.25)


@pytest.mark.parametrize(
  'aggregator, drawn',
  [
    (compressed.compressed_mean(RANDOM), lambda s, tree: s.residual == 0),
    (
      double_squeeze.strategy(RANDOM, compressors.none()).gradients,
      lambda s, tree: s.residual == 0,
    ),
    (choco.strategy(RANDOM).parameters, lambda s, tree: s.mine == tree),
  ],
  ids=['compressed', 'double_squeeze', 'choco'],
)
def test_each_worker_draws_other_entries_at_each_step(aggregator, drawn):
  workers = 3
  trees = [np.full((workers, SIZE), x, 'f4') for x in (1, 2)]
  sets = [
    np.flatnonzero(row)
    for tree, (_, state, _) in zip(trees, play(aggregator, trees), strict=True)
    for row in drawn(state, tree)
  ]
  assert [len(entries) for entries in sets] == [SIZE // 4] * 2 * workers
  assert len({entries.tobytes() for entries in sets}) == len(sets)


def test_qsgd_is_unbiased_in_the_mean_over_steps_and_workers():
  # The error of a mean over m messages is std / sqrt(m); six times that is
  # beyond chance in 120 entries, none of them so small that it is never drawn.
  steps, workers = 200, 4
  x = np.broadcast_to(np.linspace(0.5, 1.5, SIZE, dtype='f4'), (workers, SIZE))
  x = x * np.where(np.arange(SIZE) % 3, 1, -1).astype('f4')[None]
  aggregator = qsgd.strategy(compressors.qsgd(levels=1, bucket=30)).gradients
  answers = np.stack([a[0] for a, *_ in play(aggregator, [x] * steps)])
  bound = 6 * answers.std(axis=0) / steps**0.5
  assert (np.abs(answers.mean(axis=0) - x[0]) <= bound).all()
  assert (answers.std(axis=0) > 0).all()


@pytest.mark.parametrize(
  'codec',
  [
    compressors.random_k(0.25, unbiased=True),
    compressors.qsgd(),
    compressors.qsgd(levels=1, bucket=1),
    compressors.terngrad(),
  ],
)
def test_error_feedback_refuses_codecs_with_too_large_errors(codec):
  for method in (
    compressed.strategy,
    choco.strategy,
    sparse_loco.strategy,
    lambda codec: diloco.strategy(compressor=codec),
    lambda codec: diloco.strategy(compressor=codec, exchange='two_shot'),
    lambda codec: double_squeeze.strategy(push=codec),
    lambda codec: double_squeeze.strategy(pull=codec),
  ):
    with pytest.raises(UserError, match='diverges with error feedback'):
      method(codec)
  diloco.strategy(compressor=codec, decay=0.0)
  qsgd.strategy(codec)


@pytest.mark.parametrize(
  'codec', [compressors.random_k(0.75, unbiased=True), compressors.qsgd(23)]
)
def test_an_unbiased_codec_of_small_errors_keeps_residuals_bounded(codec):
  given = [gaussians(2)] * 100
  *_, (_, state, _) = play(compressed.strategy(codec).gradients, given)
  assert np.linalg.norm(state.residual) < 5 * np.linalg.norm(given[0])


def test_qsgd_refuses_a_biased_compressor():
  for codec in (compressors.topk(0.1), compressors.random_k(0.25)):
    with pytest.raises(UserError, match='takes an unbiased compressor'):
      qsgd.strategy(codec)
  for codec in (compressors.terngrad(), compressors.none()):
    qsgd.strategy(codec)


@pytest.mark.parametrize('workers', [2, 3])
def test_double_squeeze_with_a_dense_pull_is_mxnets_two_bit(workers):
  gradients = [gaussians(workers, seed) for seed in range(3)]
  aggregator = double_squeeze.strategy(
    compressors.two_bit(0.5), compressors.none()
  ).gradients
  residual = np.zeros((workers, SIZE))
  for g, (answer, state, sent) in zip(
    gradients, play(aggregator, gradients), strict=True
  ):
    wanted = g + residual
    codes = 0.5 * (wanted >= 0.5) - 0.5 * (wanted <= -0.5)
    residual = wanted - codes
    np.testing.assert_allclose(answer[0], codes.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(state.residual, residual, atol=1e-5)
    # To and from every other server: 2 bits an entry, then 4 bytes.
    share = SIZE // workers
    assert sent == (workers - 1) * (share // 4 + 4 * share)


def test_double_squeeze_keeps_the_residuals_of_both_sides():
  workers, total = 3, np.zeros(SIZE)
  gradients = [gaussians(workers, seed) for seed in range(4)]
  for g, (answer, state, sent) in zip(
    gradients,
    play(
      double_squeeze.strategy(
        compressors.sign(), compressors.topk(0.1)
      ).gradients,
      gradients,
    ),
    strict=True,
  ):
    total += g.sum(axis=0) - workers * answer[0]
    np.testing.assert_allclose(state.residual.sum(axis=0), total, atol=1e-4)
    assert np.count_nonzero(answer[0]) <= workers * 4
    assert sent == 2 * (5 + 4) + 2 * 4 * 8


def outer_rounds(workers, start, rounds):
  """The common start, f32[workers, SIZE], and the workers' moves per round."""
  moves = [gaussians(workers, seed) for seed in range(rounds)]
  return np.broadcast_to(start, (workers, SIZE)), moves


@pytest.mark.parametrize('workers', [2, 3])
def test_diloco_is_nesterov_on_the_mean_progress(workers):
  aggregator = diloco.strategy(period=1).parameters
  start, moves = outer_rounds(workers, gaussians(1, 99), 4)
  center, v, trees = start[0].copy(), np.zeros(SIZE), []
  expected = []
  for move in moves:
    trees.append(center + move)
    progress = -move.mean(axis=0)
    v = 0.9 * v + progress
    center = center - 0.7 * (progress + 0.9 * v)
    expected.append(center)
  for center, (answer, _, _) in zip(
    expected, play(aggregator, trees, start), strict=True
  ):
    np.testing.assert_allclose(
      answer, np.broadcast_to(center, answer.shape), atol=1e-5
    )


def test_diloco_without_an_outer_optimizer_is_local_sgd():
  start, moves = outer_rounds(3, gaussians(1, 99), 4)
  trees = [start + move for move in moves]
  ours = play(
    diloco.strategy(2, outer_optimizers.sgd(1.0)).parameters,
    trees,
    start,
  )
  theirs = play(local_sgd.strategy(period=2).parameters, trees, start)
  for (a, _, sent_a), (b, _, sent_b) in zip(ours, theirs, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-5)
    assert sent_a == sent_b


@pytest.mark.exhaustive
@pytest.mark.parametrize('decay', [0.95, 1.0])
def test_sparse_loco_moves_workers_by_the_mean_of_compressed_moves(decay):
  workers, codec = 3, compressors.chunk_topk(0.1, chunk=50)
  aggregator = sparse_loco.strategy(codec, 1, decay).parameters
  start, moves = outer_rounds(workers, gaussians(1, 99), 4)
  center, residual = start[0].copy(), np.zeros((workers, SIZE))
  trees, expected = [], []
  for move in moves:
    trees.append((center + move).astype('f4'))
    wanted = decay * residual + move
    message = np.stack(
      [
        codec.decompress(codec.compress(jnp.asarray(w, jnp.float32)), SIZE)
        for w in wanted
      ]
    )
    residual, center = wanted - message, center + message.mean(axis=0)
    expected.append((center, residual))
  moved = 0.0
  for move, (center, residual), (answer, state, _) in zip(
    moves, expected, play(aggregator, trees, start), strict=True
  ):
    np.testing.assert_allclose(
      answer, np.broadcast_to(center, answer.shape), atol=1e-4
    )
    np.testing.assert_allclose(state.mean.residual, residual, atol=1e-4)
    # All moves so far are in the center or in memory, unless memory decays.
    moved = moved + move.sum(axis=0)
    held = workers * (answer[0] - start[0]) + state.mean.residual.sum(axis=0)
    kept = np.allclose(held, moved, atol=1e-4)
    assert kept == (decay == 1) or move is moves[0]


def test_diloco_and_sparse_loco_reach_the_common_minimum():
  # Two workers with different quadratics: both get to the common minimum.
  target = gaussians(2, 5)
  for outer in (
    diloco.strategy(period=1),
    sparse_loco.strategy(compressors.chunk_topk(0.2, 40), 1),
  ):
    init, update = outer.parameters.init, outer.parameters.update
    step_of = executors.on_one_device(
      lambda x, s, step, u=update: u(x, s, step)
    )
    x = jnp.zeros((2, SIZE))
    state = executors.on_one_device(init)(x)
    for step in range(150):
      local = optax.apply_updates(x, -0.1 * (x - target))
      x, state, _ = step_of(local, state, step=jnp.int32(step))
    error = np.abs(x[0] - target.mean(axis=0)).max()
    assert error < 0.1 * np.abs(target).max()


@pytest.mark.parametrize(
  'aggregator',
  [
    hylo.strategy().gradients,
    power_sgd.strategy().gradients,
    ef_sign.strategy().gradients,
    sparse_loco.strategy().parameters,
  ],
)
def test_a_tree_with_integers_is_refused(aggregator):
  tree = {'w': jnp.zeros((40, 50)), 'count': jnp.zeros(3, jnp.int32)}
  with pytest.raises(UserError, match='int32'):
    aggregator.init(tree)


@pytest.mark.parametrize(
  'make',
  [
    lambda: diloco.strategy(outer=outer_optimizers.nesterov(0.0)),
    lambda: diloco.strategy(outer=outer_optimizers.nesterov(0.7, 1.0)),
    lambda: diloco.strategy(outer=outer_optimizers.nesterov(math.nan)),
    lambda: diloco.strategy(exchange='ring'),
    lambda: diloco.strategy(decay=1.1),
    lambda: sparse_loco.strategy(over='some'),
    lambda: diloco.strategy(period=0),
    lambda: sparse_loco.strategy(decay=1.1),
    lambda: sparse_loco.strategy(stepsize=-1.0),
    lambda: sparse_loco.strategy(stepsize=math.nan),
    lambda: dgc.strategy(clip=math.nan),
    lambda: union_topk.strategy(weight=math.nan),
    lambda: hylo.strategy(min_size=-1),
    lambda: random_k.strategy(2.0),
  ],
)
def test_impossible_settings_are_refused(make):
  with pytest.raises(UserError):
    make()


def test_a_config_sets_a_compressor_and_its_arguments():
  settings = resolve.strategy_config('compressed')
  settings.compressor.name = 'topk'
  settings.compressor.density = 0.1
  trees = [gaussians(4)]
  *_, sent = next(play(resolve.strategy(settings).gradients, trees))
  assert sent == 3 * 8 * SIZE // 10  # To each other worker: values and indices.
  *_, sent = next(
    play(
      resolve.strategy(resolve.strategy_config('compressed')).gradients, trees
    )
  )
  assert sent == 3 * (SIZE + 4)  # By default: int8 and a scale.
