"""Which worker gets which example, in which step, and how it is augmented."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gossipjax.data import split
from gossipjax.data.augment import crop_and_flip
from gossipjax.data.batch import batch, permuted
from gossipjax.errors import UserError

LABEL = np.repeat(np.arange(10), 60)
SPLITS = {
  'iid': split.iid,
  'dirichlet 0.01': functools.partial(split.dirichlet, alpha=0.01),
  'dirichlet 1': functools.partial(split.dirichlet, alpha=1.0),
  'label': split.by_label,
  'contiguous': split.contiguous,
}


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(SPLITS)), st.integers(1, 150), st.integers(0, 99))
def test_shares_are_equally_large_and_disjoint(name, workers, seed):
  rows = SPLITS[name](LABEL, workers, seed)
  share = len(LABEL) // workers
  assert rows.shape == (workers, share // 2 * 2 if name == 'label' else share)
  assert len(np.unique(rows)) == rows.size
  assert rows.min() >= 0 and rows.max() < len(LABEL)


@pytest.mark.parametrize('name', sorted(set(SPLITS) - {'contiguous'}))
def test_a_split_depends_on_the_seed_alone(name):
  one, again, other = (SPLITS[name](LABEL, 8, seed) for seed in (1, 1, 2))
  np.testing.assert_array_equal(one, again)
  assert (one != other).any()


@pytest.mark.parametrize('name', sorted(SPLITS))
def test_more_workers_than_examples_are_refused(name):
  with pytest.raises(UserError, match=r'^workers'):
    SPLITS[name](LABEL, len(LABEL) + 1, 0)


def concentration(rows):
  """Sum of the squared shares of the classes: 0.1 is even, 1 is one class."""
  return np.sum((np.bincount(LABEL[rows], minlength=10) / len(rows)) ** 2)


@pytest.mark.parametrize('alpha', [0.1, 1.0, 10.0])
def test_shares_are_as_skewed_as_the_dirichlet_distribution(alpha):
  # E sum q^2 of a symmetric Dirichlet; sampling adds (1 - sum q^2) / m.
  expected = (alpha + 1) / (10 * alpha + 1)
  expected += (1 - expected) / 60
  measured = [
    concentration(split.dirichlet(LABEL, 10, seed, alpha)[0])
    for seed in range(400)
  ]
  error = np.std(measured) / np.sqrt(len(measured))
  assert abs(np.mean(measured) - expected) < 4 * error


def test_class_mixes_are_unchanged_if_examples_are_held_out():
  label = np.repeat(np.arange(10), 6_000)
  fewer = np.repeat(np.arange(10), 5_400)
  for seed in range(3):
    of_all, of_fewer = (
      [
        np.bincount(labels[row], minlength=10) / len(row)
        for row in split.dirichlet(labels, 4, seed, 0.3)[:2]
      ]
      for labels in (label, fewer)
    )
    # The shares are random samples, of 15,000 or 13,500 examples each.
    np.testing.assert_allclose(of_all, of_fewer, atol=0.05)


def test_iid_shares_have_nearly_even_classes():
  assert max(map(concentration, split.iid(LABEL, 4, 0))) < 0.12


def test_by_label_gives_each_worker_the_classes_of_its_shards():
  for rows in split.by_label(LABEL, 10, 0, shards=1):
    assert len(np.unique(LABEL[rows])) == 1
  for rows in split.by_label(LABEL, 10, 0, shards=2):
    assert len(np.unique(LABEL[rows])) <= 2


def test_too_many_shards_are_not_reported_as_too_many_workers():
  with pytest.raises(UserError, match=r'^split\.shards: 6 .* 2 shards .* 4'):
    split.by_label(np.arange(6), 4, 0)


@pytest.mark.parametrize('alpha', [0.0, -1.0, float('nan')])
def test_a_concentration_that_is_not_positive_is_refused(alpha):
  with pytest.raises(UserError, match=r'^split\.alpha'):
    split.dirichlet(LABEL, 4, 0, alpha)


# Batches.

KEY = jax.random.key(0)


@pytest.mark.exhaustive
@pytest.mark.parametrize('n', [1, 2, 7, 6_250])
def test_permuted_returns_a_permutation(n):
  keys = jax.random.split(KEY, 20)
  draw = jax.jit(jax.vmap(lambda key: permuted(jnp.arange(n), key, n)))
  for places in draw(keys):
    assert sorted(places.tolist()) == list(range(n))


@pytest.mark.exhaustive
@pytest.mark.parametrize('n', [3, 30])
def test_every_pair_of_places_is_equally_likely_in_a_permutation(n):
  draws = 20_000
  keys = jax.random.split(KEY, draws)
  to = jax.jit(jax.vmap(lambda key: permuted(jnp.arange(n), key, n)))(keys)
  for a, b in ((0, 1), (0, n - 1), (n // 2, n - 1)):
    pair = np.asarray(to[:, a] * n + to[:, b])
    counts = np.bincount(pair, minlength=n * n)
    counts = counts[~np.eye(n, dtype=bool).reshape(-1)]
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.exhaustive
@pytest.mark.parametrize('m, size', [(12, 4), (13, 4), (7, 7)])
def test_no_example_is_repeated_within_an_epoch(m, size):
  share = {'x': np.arange(m) + 100, 'y': np.arange(m)}
  draw = jax.jit(functools.partial(batch, share, size=size))
  steps = m // size
  orders = []
  for epoch in range(4):
    batches = [draw(KEY, epoch * steps + i) for i in range(steps)]
    seen = np.concatenate([one['y'] for one in batches]).tolist()
    assert len(set(seen)) == steps * size
    assert all((one['x'] == one['y'] + 100).all() for one in batches)
    orders.append(tuple(seen))
  assert len(set(orders)) > 1


@pytest.mark.exhaustive
def test_a_batch_is_a_pure_function_of_key_and_step():
  share = np.arange(1_000)
  draw = jax.jit(lambda key, step: batch(share, key, step, 10))
  once = draw(KEY, 77)
  np.testing.assert_array_equal(once, batch(share, KEY, 77, 10))
  assert (once != draw(jax.random.key(1), 77)).any()
  assert (once != draw(KEY, 177)).any()  # The same step of the next epoch.


@pytest.mark.exhaustive
def test_workers_under_vmap_draw_the_same_batches_as_alone():
  shares = np.arange(60).reshape(3, 20)
  keys = jax.random.split(KEY, 3)
  draw = jax.jit(lambda share, key: batch(share, key, 9, 4))
  together = jax.jit(jax.vmap(draw))(shares, keys)
  for i in range(3):
    np.testing.assert_array_equal(together[i], draw(shares[i], keys[i]))


@pytest.mark.parametrize('size', [0, 21])
def test_a_batch_that_is_empty_or_exceeds_the_share_is_refused(size):
  with pytest.raises(UserError, match=f'batch_size={size} .*20 examples'):
    batch(np.arange(20), KEY, 0, size)


# Augmentation.


@pytest.mark.exhaustive
def test_an_augmented_image_is_a_window_of_the_padded_one_or_its_mirror():
  x = np.random.default_rng(0).integers(1, 256, (1, 6, 5, 3), np.uint8)
  padded = np.pad(x[0], ((4, 4), (4, 4), (0, 0)))
  windows = {}
  for i in range(9):
    for j in range(9):
      window = padded[i : i + 6, j : j + 5]
      windows[window.tobytes()] = i, j, False
      windows[window[:, ::-1].tobytes()] = i, j, True
  many = np.asarray(crop_and_flip(jnp.tile(x, (4_000, 1, 1, 1)), KEY))
  assert many.dtype == np.uint8
  seen = [windows[image.tobytes()] for image in many]  # a KeyError is a failure
  assert set(seen) == set(windows.values())
  assert (
    stats.chisquare(
      np.unique_counts([9 * i + j for i, j, _ in seen]).counts
    ).pvalue
    > 1e-4
  )
  assert abs(np.mean([flip for *_, flip in seen]) - 0.5) < 0.03


def test_augmentation_is_a_pure_function_of_its_key():
  x = jnp.arange(2 * 64, dtype=jnp.uint8).reshape(2, 8, 8, 1)
  np.testing.assert_array_equal(crop_and_flip(x, KEY), crop_and_flip(x, KEY))
  assert (crop_and_flip(x, KEY) != crop_and_flip(x, jax.random.key(1))).any()


def test_by_label_deals_shards_at_random():
  """Two shards dealt in the order of labels would be a whole class."""
  dealt = split.by_label(LABEL, 10, 0)
  assert np.mean([len(np.unique(LABEL[rows])) for rows in dealt]) > 1.5


def test_by_label_leaves_out_examples_of_several_classes():
  left = np.setdiff1d(np.arange(len(LABEL)), split.by_label(LABEL, 7, 0))
  assert len(left) == 12 and len(np.unique(LABEL[left])) > 3
