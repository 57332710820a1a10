"""Sparse exchanges are equal to references in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossipjax import executors
from gossipjax.compressors import metrics
from gossipjax.compressors.selections import blockwise, reused, sampled
from gossipjax.compressors.sparse import Sparse
from gossipjax.errors import UserError
from gossipjax.servers import sharded_server
from gossipjax.strategies import (
  exact_global_topk,
  ok_topk,
  union_topk,
)
from tests.support.tiers import exhaustive

pytestmark = pytest.mark.usefixtures('compile_quickly')

SIZE = 200


def gaussians(workers, seed=0, size=SIZE):
  return np.random.default_rng(seed).normal(size=(workers, size)).astype('f4')


def play(strategy, gradients):
  """Runs the gradient slot over gradients[step, worker, n] on one device.

  Returns:
    The workers' answers, their last state, worker 0's bytes in each step.
  """
  update = executors.on_one_device(
    lambda g, s, step: strategy.gradients.update(g, s, step)
  )
  state = executors.on_one_device(strategy.gradients.init)(gradients[0])
  answers, sent = [], []
  for step, g in enumerate(gradients):
    answer, state, bill = update(jnp.asarray(g), state, step=jnp.int32(step))
    answers.append(np.asarray(answer))
    sent.append(int(bill.bytes[0]))
  return answers, jax.device_get(state), sent


def largest(x, k):
  return np.argsort(-np.abs(x), kind='stable')[:k]


def keep(x, k):
  kept = np.zeros_like(x)
  kept[largest(x, k)] = x[largest(x, k)]
  return kept


@pytest.mark.exhaustive
@pytest.mark.parametrize('workers', [2, 3])
def test_exact_global_topk_is_the_k_largest_of_the_sum_of_messages(workers):
  gradients = [gaussians(workers, seed) for seed in range(3)]
  answers, state, _ = play(exact_global_topk.strategy(density=0.05), gradients)
  residual = np.zeros((workers, SIZE), 'f4')
  for g, answer in zip(gradients, answers, strict=True):
    wanted = g + residual
    messages = np.stack([keep(w, 10) for w in wanted])
    total = keep(messages.sum(axis=0), 10)
    residual = wanted - np.where(total != 0, messages, 0)
    np.testing.assert_allclose(answer[0], total / workers, atol=1e-6)
  np.testing.assert_allclose(state.residual, residual, atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize('workers', [1, 3, 8])
@pytest.mark.parametrize('strided', [True, False])
def test_a_sharded_server_sums_and_returns_every_entry(workers, strided):
  size, k, rng = 151, 15, np.random.default_rng(0)
  stride = workers if strided else 1  # The first entry of each block.
  indices = np.stack(
    [
      rng.choice(size // stride, k, replace=False) * stride
      for _ in range(workers)
    ]
  ).astype('i4')
  indices[0, 3] = size  # No entry.
  values = rng.normal(size=(workers, k)).astype('f4')

  def there_and_back(message):
    total, touched, _ = sharded_server.push(message, size)
    return sharded_server.pull(total, touched, size, k)[:2]

  total, union = executors.on_one_device(there_and_back)(
    Sparse(values, indices)
  )
  expected, known = np.zeros(size + 1), np.zeros(size + 1, bool)
  np.add.at(expected, indices, values)
  known[indices] = True
  for worker in range(workers):
    np.testing.assert_allclose(total[worker], expected[:size], atol=1e-6)
    np.testing.assert_array_equal(union[worker], known[:size])


@pytest.mark.exhaustive
@pytest.mark.parametrize('workers', [2, 4])
def test_union_topk_by_magnitude_alone_is_topk_sgd(workers):
  gradients = [gaussians(workers, seed) for seed in range(3)]
  answers, state, _ = play(
    union_topk.strategy(density=0.05, metric='plain'), gradients
  )
  residual = np.zeros((workers, SIZE), 'f4')
  for g, answer in zip(gradients, answers, strict=True):
    messages = np.stack([keep(w, 10) for w in g + residual])
    residual = g + residual - messages
    np.testing.assert_allclose(answer[0], messages.mean(axis=0), atol=1e-6)
  np.testing.assert_allclose(state.residual, residual, atol=1e-6)
  assert state.union[0] == np.count_nonzero(messages.any(axis=0))


def unions(metric, **arguments):
  """|U| over k in the last of ten steps of a noisy common gradient."""
  signal = 3 * gaussians(1, seed=99)
  gradients = [signal + gaussians(4, seed) for seed in range(10)]
  strategy = union_topk.strategy(density=0.1, metric=metric, **arguments)
  return play(strategy, gradients)[1].union[0] / 20


@pytest.mark.exhaustive
def test_every_metric_makes_a_smaller_union_than_magnitude_alone():
  plain = unions('plain')
  assert unions('popularity', weight=5.0) < plain
  assert unions('recent', decay=0.9) < plain
  assert unions('two_budgets') < plain


@pytest.mark.exhaustive
def test_popularity_prefers_entries_of_the_last_union():
  gradients = [gaussians(3, seed) for seed in range(2)]
  answers, _, _ = play(
    union_topk.strategy(density=0.05, weight=4.0, decay=0.5), gradients
  )
  first = np.stack([keep(g, 10) for g in gradients[0]])
  wanted = gradients[1] + gradients[0] - first
  score = np.abs(wanted) * (1 + 4 * 0.5 * first.any(axis=0))
  chosen = [largest(s, 10) for s in score]
  second = np.zeros_like(wanted)
  for i, indices in enumerate(chosen):
    second[i, indices] = wanted[i, indices]
  np.testing.assert_allclose(answers[1][0], second.mean(axis=0), atol=1e-6)


@pytest.mark.exhaustive
def test_two_budgets_send_only_large_or_previously_sent_entries():
  gradients = np.full((2, 2, SIZE), 0.01, 'f4')
  gradients[0, 0, 5], gradients[0, 1, 7] = 9.0, 9.0
  gradients[1, 0, 8] = 9.0
  answers, _, _ = play(
    union_topk.strategy(density=0.05, metric='two_budgets'), gradients
  )
  assert set(np.flatnonzero(answers[0][0])) == {5, 7}
  # 5 and 7 have been sent; 8 is large; the rest, equal in size, is neither.
  assert set(np.flatnonzero(answers[1][0])) == {5, 7, 8}


def test_two_budgets_count_nonzero_entries_of_small_tensors_as_large():
  score = metrics.metrics(0, 0, large=3.0)['two_budgets'].score
  none = jnp.zeros(4)
  found = score(jnp.array([1.0, 2.0, 0.0, 1.5]), none)
  np.testing.assert_array_equal(np.argsort(found), [2, 0, 3, 1])
  assert found[2] == 0
  assert not score(none, none).any()


def test_two_budgets_withhold_no_tensor_without_outliers():
  """Of ten entries one is above 3 rms only if the others are almost zero."""
  score = metrics.metrics(0, 0, large=3.0)['two_budgets'].score
  even = jnp.linspace(1.0, 2.0, 10)
  np.testing.assert_array_equal(score(even, jnp.zeros(10)), even / 2)
  known = jnp.zeros(10).at[3].set(1)
  assert jnp.flatnonzero(score(even, known)).tolist() == [3]


@pytest.mark.exhaustive
def test_patience_bounds_the_wait_of_every_entry():
  workers, patience = 2, 20
  gradients = np.ones((patience, workers, SIZE), 'f4')
  gradients[:, :, :20] = 100.0  # More than k, and always larger.
  bounded, _, _ = play(
    union_topk.strategy(density=0.05, metric='plain', patience=patience),
    gradients,
  )
  unbounded, _, _ = play(
    union_topk.strategy(density=0.05, metric='plain'), gradients
  )
  assert np.stack(bounded).any(axis=(0, 1)).all()
  assert not np.stack(unbounded)[:, :, 20:].any()


def test_a_patience_too_short_for_all_entries_is_refused():
  init = lambda patience: union_topk.strategy(
    density=0.05, patience=patience
  ).gradients.init(jnp.zeros(205))
  init(21)  # 10 entries a step.
  with pytest.raises(UserError, match='at least 21'):
    init(20)


@pytest.mark.parametrize(
  ('workers', 'patience'), [(8, 104), (8, 105), (3, 7), (4, 2), (2, 1)]
)
@pytest.mark.parametrize('size', [SIZE, 203])
def test_patience_spreads_the_entries_of_each_owner_over_all_turns(
  workers, patience, size
):
  def both(_):
    index = jnp.arange(size)
    return sharded_server.owner(index), sharded_server.by_owner(size)

  owner, rank = executors.on_one_device(both)(np.zeros(workers))
  turn = np.asarray(rank[0]) % patience
  np.testing.assert_array_equal(np.sort(rank[0]), np.arange(size))
  count = np.zeros((patience, workers), int)
  np.add.at(count, (turn, np.asarray(owner[0])), 1)
  assert count.sum(axis=1).max() == -(-size // patience)
  # One more for a remainder, and one for the incomplete block.
  assert np.ptp(count, axis=1).max() <= 1 + (size % workers > 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'strategy',
  [
    union_topk.strategy(density=0.05),
    union_topk.strategy(density=0.05, patience=32),
    ok_topk.strategy(density=0.05, period=2),
  ],
)
def test_the_bytes_sent_are_little_more_than_those_of_the_entries(strategy):
  workers, size, k = 4, 20_000, 1_000
  channels = np.random.default_rng(7).lognormal(size=16)  # Every 16 entries.
  gradients = [
    gaussians(workers, seed, size) * np.tile(channels, size // 16)
    for seed in range(4)
  ]
  answers, _, sent = play(strategy, gradients)
  for answer, bytes_ in zip(answers, sent, strict=True):
    pulled = np.count_nonzero(answer[0])
    entries = (k + pulled) * (workers - 1) / workers
    assert 4 * entries < bytes_ < 1.15 * 8 * entries


@pytest.mark.exhaustive
def test_a_smaller_union_sends_fewer_bytes():
  apart = [gaussians(8, seed=0)]
  alike = [np.broadcast_to(apart[0][:1], apart[0].shape)]
  strategy = union_topk.strategy(density=0.05, metric='plain')
  _, state, (many,) = play(strategy, apart)
  _, agreed, (few,) = play(strategy, alike)
  assert agreed.union[0] == 10 < state.union[0] and few < many


@pytest.mark.exhaustive
@pytest.mark.parametrize('workers', [2, 3])
def test_ok_topk_with_an_exact_threshold_applies_the_k_largest_sums(workers):
  gradients = [gaussians(workers, seed) for seed in range(3)]
  answers, state, _ = play(ok_topk.strategy(density=0.05, period=1), gradients)
  residual = np.zeros((workers, SIZE), 'f4')
  for g, answer in zip(gradients, answers, strict=True):
    messages = np.stack([keep(w, 10) for w in g + residual])
    total = keep(messages.sum(axis=0), 10)
    residual = g + residual - np.where(total != 0, messages, 0)
    np.testing.assert_allclose(answer[0], total / workers, atol=1e-6)
  np.testing.assert_allclose(state.residual, residual, atol=1e-6)


@pytest.mark.exhaustive
def test_ok_topk_reuses_its_threshold_between_exact_ones():
  gradients = [gaussians(4, seed) for seed in range(4)]
  answers, state, sent = play(
    ok_topk.strategy(density=0.05, period=3), gradients
  )
  first = np.stack([keep(g, 10) for g in gradients[0]]).sum(axis=0)
  applied = np.abs(answers[1][0][answers[1][0] != 0]) * 4
  assert applied.min() >= np.sort(np.abs(first))[-10] - 1e-5
  assert sent[0] > sent[1]  # Only an exact threshold sends counts.
  assert not np.allclose(state.threshold[0], np.sort(np.abs(first))[-10])


@pytest.mark.exhaustive
@pytest.mark.parametrize('selection', [reused, sampled, blockwise])
@pytest.mark.parametrize('strategy', [exact_global_topk, ok_topk, union_topk])
def test_nothing_is_lost_with_any_selection(strategy, selection):
  gradients = [gaussians(3, seed) for seed in range(3)]
  answers, state, _ = play(
    strategy.strategy(density=0.05, selection=selection.selection()), gradients
  )
  np.testing.assert_allclose(
    3 * sum(answer[0] for answer in answers) + state.residual.sum(axis=0),
    np.sum(gradients, axis=(0, 1)),
    atol=1e-4,
  )


@pytest.mark.parametrize(
  'make',
  [
    lambda: union_topk.strategy(metric='popularty'),
    lambda: union_topk.strategy(decay=1.0),
    lambda: ok_topk.strategy(period=0),
    lambda: union_topk.strategy(large=0.0),
    lambda: union_topk.strategy(0.0),
    lambda: exact_global_topk.strategy(0.0),
    lambda: union_topk.strategy(patience=200, selection=blockwise.selection()),
  ],
)
def test_impossible_settings_are_refused(make):
  with pytest.raises(UserError):
    make()


@pytest.mark.parametrize('name', ['ok_topk', 'union_topk'])
@pytest.mark.parametrize('bad', [np.nan, exhaustive(np.inf)])
def test_a_non_finite_gradient_is_sent_and_not_hidden_in_memory(name, bad):
  strategy = {'ok_topk': ok_topk, 'union_topk': union_topk}[name].strategy(0.1)
  gradients = np.stack([gaussians(4, seed) for seed in range(3)])
  gradients[0, 1, 3] = bad
  answers, _, _ = play(strategy, gradients)
  assert not np.isfinite(answers[0][:, 3]).any()
