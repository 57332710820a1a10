"""Weighted merges of progress, and Decoupled DiLoCo in lock-step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gossipjax import compressors, executors
from gossipjax.errors import UserError
from gossipjax.strategies import (
  decoupled_diloco,
  diloco,
  streaming_diloco,
)
from gossipjax.transforms.merges import merged, report
from gossipjax.transforms.outer_optimizers import nesterov, sgd
from tests.support.quadratics import close, run, start, train

MOMENTUM = optax.sgd(0.1, 0.9)
pytestmark = pytest.mark.usefixtures('compile_quickly')


def merge(how, moves, weights):
  """Merges the progress f32[workers, ...] of one tensor."""
  reports = [
    report([jnp.float32(d)], jnp.float32(w), how)
    for d, w in zip(moves, weights, strict=True)
  ]
  total = jax.tree.map(lambda *x: sum(x), *reports)
  return np.asarray(merged(total, how, [jnp.float32(moves[0])])[0])


MOVES = np.random.default_rng(0).normal(size=(3, 5))
WEIGHTS = np.array([1.0, 4.0, 2.0])
WALK = np.float32([[1.0], [2.0], [4.0]])  # Of each worker, per step.


def test_a_mean_is_weighted():
  expected = WEIGHTS @ MOVES / WEIGHTS.sum()
  np.testing.assert_allclose(merge('mean', MOVES, WEIGHTS), expected, atol=1e-6)


def test_a_mean_of_progress_needs_and_sends_no_lengths():
  assert report([jnp.ones(3)], jnp.float32(1), 'mean').lengths == ()
  mean, direction = (
    [
      int(sent.bytes[0])
      for *_, sent in run(decoupled_diloco.strategy(1, merge=merge))
    ]
    for merge in ('mean', 'direction')
  )
  # A length in f32 of each of two tensors.
  assert direction == [sent + 2 * 4 for sent in mean]


def test_a_merge_of_directions_has_the_weighted_mean_length():
  found = merge('direction', MOVES, WEIGHTS)
  lengths = np.linalg.norm(MOVES, axis=1)
  length = WEIGHTS @ lengths / WEIGHTS.sum()
  np.testing.assert_allclose(np.linalg.norm(found), length, rtol=1e-6)
  sums = WEIGHTS @ (MOVES / lengths[:, None])
  expected = length * sums / np.linalg.norm(sums)
  np.testing.assert_allclose(found, expected, atol=1e-6)
  assert np.linalg.norm(merge('mean', MOVES, WEIGHTS)) < length
  scaled = merge('direction', 10 * MOVES, WEIGHTS)
  np.testing.assert_allclose(scaled, 10 * found, rtol=1e-5)


def test_cancelling_directions_and_no_progress_give_zero():
  opposite = np.stack([MOVES[0], -MOVES[0]])
  assert not merge('direction', opposite, [1.0, 1.0]).any()
  assert not merge('direction', 0 * MOVES, WEIGHTS).any()


def test_rounding_errors_of_cancelling_directions_give_zero():
  """v and -3 v: their unit vectors differ in the last bits."""
  v = np.random.default_rng(0).normal(size=1000)
  opposite = np.stack([v, -3 * v])
  assert not merge('direction', opposite, [1.0, 1.0]).any()


def test_a_worker_without_a_step_is_not_counted():
  moved = jnp.zeros(3)
  for steps, counted in ((0.0, 0), (2.0, 1)):
    found = report(moved, jnp.float32(steps), 'direction')
    assert found.workers == counted


def test_merging_one_worker_or_equal_progress_changes_nothing():
  for how in ('mean', 'direction'):
    for moves in (MOVES[:1], np.stack([MOVES[0]] * 3)):
      found = merge(how, moves, WEIGHTS[: len(moves)])
      np.testing.assert_allclose(found, MOVES[0], rtol=1e-5)


@pytest.mark.parametrize('quorum', [1, 4])
def test_decoupled_diloco_with_a_mean_in_lock_step_is_diloco(quorum):
  close(
    train(decoupled_diloco.strategy(3, quorum, 'mean'), MOMENTUM),
    train(diloco.strategy(3), MOMENTUM),
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize(('fragments', 'delay'), [(1, 2), (2, 0), (2, 1)])
def test_fragments_in_lock_step_are_streaming_diloco_without_mixing(
  fragments, delay
):
  outer = nesterov(0.5, 0.6)
  decoupled = decoupled_diloco.strategy(
    4, 4, 'mean', outer, fragments=fragments, delay=delay
  )
  streaming = streaming_diloco.strategy(
    4, fragments, delay, 0.0, outer, compressors.none(), pattern='balanced'
  )
  close(train(decoupled, MOMENTUM), train(streaming, MOMENTUM))


def test_a_worker_absent_at_an_arrival_receives_it_when_it_returns():
  """One of three workers misses the step at which the parameters arrive."""
  aggregator = decoupled_diloco.strategy(2, 3, 'mean', delay=1).parameters
  update = executors.on_one_device(
    lambda x, s, present, step: aggregator.update(x, s, step, present)
  )
  x = jnp.float32(MOVES[[0, 0, 0]])
  state = executors.on_one_device(aggregator.init)(x)
  for step, present in enumerate(([True] * 3, [True] * 3, [True, False, True])):
    x, state, _ = update(x + WALK, state, jnp.array(present), step=step)
  np.testing.assert_array_equal(x[0], x[2])
  assert np.abs(x[0] - x[1]).min() > 0.01
  late, _, _ = update(x + WALK, state, jnp.array([True] * 3), step=3)
  np.testing.assert_array_equal(late[1], x[0])


def test_steps_that_a_worker_misses_do_not_count_for_its_weight():
  aggregator = decoupled_diloco.strategy(4, 3).parameters
  update = executors.on_one_device(
    lambda x, s, present, step: aggregator.update(x, s, step, present)
  )
  x = jnp.float32(MOVES)
  state = executors.on_one_device(aggregator.init)(x)
  for step, second_present in enumerate((True, False, True)):
    present = jnp.array([True, second_present, True])
    x, state, _ = update(x, state, present, step=step)
  assert state.fragments[0].steps.tolist() == [3, 2, 3]


def test_a_single_worker_that_merges_directions_is_diloco():
  close(
    train(decoupled_diloco.strategy(3), MOMENTUM, workers=1),
    train(diloco.strategy(3), MOMENTUM, workers=1),
  )


def test_the_grace_changes_nothing_in_lock_step():
  close(
    train(decoupled_diloco.strategy(3, grace=2), MOMENTUM),
    train(decoupled_diloco.strategy(3), MOMENTUM),
  )


@pytest.mark.parametrize('reports', [2, 3])
def test_as_many_reports_as_workers_end_the_grace(reports):
  patient = decoupled_diloco.strategy(1, 1, 'mean', sgd(1.0), grace=99)
  aggregator = patient.async_exchange(3).parameters
  update = executors.on_one_device(
    lambda x, s, present: aggregator.update(x, s, jnp.int32(0), present)
  )
  x, present = jnp.float32(MOVES[[0, 0, 0]]), np.arange(3) < reports
  state = executors.on_one_device(aggregator.init)(x)
  found, _, _ = update(x + WALK, state, present)
  moved = WALK.mean() if reports == 3 else 0
  np.testing.assert_allclose(found[present], (x + moved)[present], rtol=1e-6)


def test_without_a_quorum_the_syncer_waits():
  for x in train(decoupled_diloco.strategy(3, quorum=9), steps=3):
    last = x
  close([last], [np.broadcast_to(start(), last.shape)])
  *_, late = train(decoupled_diloco.strategy(3, quorum=8), steps=6)
  assert np.abs(late - start()).max() > 0.01


@pytest.mark.parametrize(
  'wrong',
  [
    {'period': 0},
    {'quorum': 0},
    {'merge': 'sum'},
    {'delay': 24},
    {'grace': -1},
  ],
)
def test_impossible_settings_are_refused(wrong):
  with pytest.raises(UserError, match=next(iter(wrong))):
    decoupled_diloco.strategy(**wrong)


def test_complex_numbers_are_refused_by_reports():
  with pytest.raises(UserError, match='decoupled_diloco needs floating'):
    report({'x': jnp.ones(3, jnp.complex64)}, jnp.float32(1), 'mean')
