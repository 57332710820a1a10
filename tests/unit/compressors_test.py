"""Which entries compressors keep, and how sparse messages are added. See also
quantised_test.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from gossipjax import compressors
from gossipjax.compressors import largest, merging, sparse
from gossipjax.errors import UserError
from gossipjax.traffic import nbytes

few = settings(max_examples=40, deadline=None, derandomize=True)
sizes = st.sampled_from([2, 33, 1000])
# (size, k). Sizes around multiples of 32, the bits of a word; from 16,384 on a
# sample guides the selection.
choices = st.sampled_from(
  [
    (1, 1),
    (31, 31),
    (32, 1),
    (33, 7),
    (321, 300),
    (4099, 41),
    (16385, 2),
    (20011, 9000),
    (70001, 70),
  ]
)
select = jax.jit(largest.largest, static_argnums=1)
merge = jax.jit(merging.merge, static_argnums=2)
split = jax.jit(merging.split, static_argnums=(1, 2))
dense = jax.jit(compressors.topk().decompress, static_argnums=1)
halve = jax.jit(compressors.topk(0.5).compress)
seeds = st.integers(0, 2**32 - 1)


def vector(size, seed, distinct):
  """f32[size] with few distinct magnitudes, hence ties, or with many."""
  rng = np.random.default_rng(seed)
  if distinct:
    return rng.integers(-distinct, distinct + 1, size).astype(np.float32)
  return rng.standard_normal(size, np.float32)


@pytest.mark.exhaustive
@given(choices, seeds, st.sampled_from([0, 1, 2, 5]))
@few
def test_largest_equals_lax_top_k_including_its_order_of_ties(
  choice, seed, distinct
):
  size, k = choice
  x = vector(size, seed, distinct)
  np.testing.assert_array_equal(select(x, k), lax.top_k(jnp.abs(x), k)[1])


@pytest.mark.exhaustive
@pytest.mark.parametrize('size', [37, 40005])
def test_the_last_entries_can_be_selected_too(size):
  x = np.zeros(size, np.float32)
  x[[3, -2]] = 1, -2
  np.testing.assert_array_equal(select(x, 2), [size - 2, 3])


@pytest.mark.exhaustive
@pytest.mark.parametrize('size', [100, 40000])
def test_nan_counts_as_larger_than_all_numbers(size):
  x = np.random.default_rng(0).standard_normal(size, np.float32)
  x[[7, 50, 60]] = np.nan, -np.inf, np.inf
  np.testing.assert_array_equal(select(x, 5), lax.top_k(jnp.abs(x), 5)[1])


@given(sizes, seeds, st.sampled_from([0, 2]))
@few
def test_top_k_decompresses_to_the_kept_entries_and_zeros(size, seed, distinct):
  x = vector(size, seed, distinct)
  message = halve(x)
  kept = np.asarray(message.indices)
  expected = np.zeros_like(x)
  expected[kept] = x[kept]
  np.testing.assert_array_equal(dense(message, size), expected)
  dropped = np.delete(np.abs(x), kept)
  assert np.abs(x[kept]).min() >= dropped.max(initial=0)
  assert nbytes(message) == 8 * round(0.5 * size)


def messages(size, k, seed, distinct, empty):
  """Two sparse messages; the last `empty` entries of the second are empty."""
  rng = np.random.default_rng(seed)
  a, b = (np.sort(rng.permutation(size)[:k]).astype(np.int32) for _ in 'ab')
  values = [vector(k, seed + i, distinct) for i in range(2)]
  b[k - empty :], values[1][k - empty :] = size, 0
  return sparse.Sparse(values[0], a), sparse.Sparse(values[1], b)


lengths = st.sampled_from([(1, 1), (2, 1), (5, 3), (9, 9), (40, 7), (100, 60)])


@pytest.mark.exhaustive
@given(lengths, seeds, st.sampled_from([0, 1, 3]), st.floats(0, 1))
@few
def test_a_merge_is_the_dense_sum_and_commutes_to_the_last_bit(
  length, seed, distinct, emptiness
):
  size, k = length
  a, b = messages(size, k, seed, distinct, int(emptiness * k))
  both, swapped = merge(a, b, size), merge(b, a, size)
  np.testing.assert_array_equal(
    dense(both, size), dense(a, size) + dense(b, size)
  )
  jax.tree.map(np.testing.assert_array_equal, both, swapped)

  indices = np.asarray(both.indices)
  real = indices[indices < size]
  assert len(indices) == 2 * k and len(set(real)) == len(real)
  assert set(real) == {*a.indices, *b.indices} - {size}
  assert (np.diff(real) > 0).all()
  assert not np.asarray(both.values)[indices == size].any()


@pytest.mark.exhaustive
@given(lengths, seeds, st.sampled_from([0, 1, 3]))
@few
def test_a_split_keeps_the_k_largest_and_returns_the_others(
  length, seed, distinct
):
  size, k = length
  both = merge(*messages(size, k, seed, distinct, k // 3), size)
  kept, dropped = split(both, k, size)
  np.testing.assert_array_equal(
    dense(kept, size) + dense(dropped, size), dense(both, size)
  )
  real = {
    int(i): float(v)
    for i, v in zip(both.indices, both.values, strict=True)
    if i < size
  }
  best = sorted(real, key=lambda i: (-abs(real[i]), i))[:k]
  # In order, for the next merge, with empty entries at the end.
  empty = [size] * (k - len(best))
  assert [int(i) for i in kept.indices] == sorted(best) + empty


@pytest.mark.parametrize('distinct', [0, 3])
def test_the_methods_for_gpus_merge_and_split_like_those_for_cpus(
  monkeypatch, distinct
):
  a, b = messages(1000, 300, 0, distinct, 200)
  expected = merge(a, b, 1000), *split(merge(a, b, 1000), 400, 1000)
  monkeypatch.setattr(merging, '_METHODS', {'cpu': 'scan_unrolled'})
  monkeypatch.setattr(merging.largest, '_SORTING', ('cpu',))
  both = merging.merge(a, b, 1000)
  found = both, *merging.split(both, 400, 1000)
  jax.tree.map(np.testing.assert_array_equal, found, expected)


@given(lengths, seeds)
@few
def test_a_message_contains_its_indices_and_no_others(length, seed):
  size, k = length
  a, b = messages(size, k, seed, 0, k // 2)
  expected = np.isin(np.arange(size), b.indices)
  np.testing.assert_array_equal(merging.contains(b, jnp.arange(size)), expected)
  np.testing.assert_array_equal(
    merging.contains(b, a.indices), expected[a.indices]
  )


@given(sizes, seeds, st.sampled_from([1e-37, 1e-30, 1e-3, 1, 1e20, 1e36]))
@few
def test_the_error_of_int8_is_at_most_half_a_level(size, seed, unit):
  x = np.float32(unit) * vector(size, seed, 0)
  message = compressors.int8().compress(x)
  half = np.abs(x).max() / 127 / 2
  # A level below the smallest normal number is zero to XLA, and so are all x.
  allowed = max(half * (1 + 1e-4), 127 * np.finfo(np.float32).tiny)
  error = np.abs(compressors.int8().decompress(message, size) - x)
  assert error.max() <= allowed and nbytes(message) == size + 4


@pytest.mark.parametrize(
  'make', [compressors.topk, compressors.topk_int8, compressors.random_k]
)
@pytest.mark.parametrize('density', [0, -0.1, 1.5, float('nan')])
def test_an_impossible_density_is_refused_at_once_by_name(make, density):
  with pytest.raises(UserError, match=f'density must be above 0.*{density}'):
    make(density)


@pytest.mark.parametrize(
  'make', [compressors.topk, compressors.topk_int8, compressors.random_k]
)
def test_a_density_below_one_entry_keeps_one_entry(make):
  codec = make(0.001)
  message = codec.compress(jnp.ones(100), jax.random.key(0))
  assert np.count_nonzero(codec.decompress(message, 100)) == 1


@pytest.mark.exhaustive
def test_mean_and_withheld_agree_with_decompressing_each_message():
  x = np.random.default_rng(0).standard_normal((3, 65), np.float32)
  for codec in (compressors.topk(0.3), compressors.int8()):
    stacked = jax.vmap(codec.compress)(x)
    each = [codec.decompress(codec.compress(row), 65) for row in x]
    np.testing.assert_allclose(
      codec.mean(stacked, 65, 4), np.sum(each, axis=0) / 4, atol=1e-6
    )
    for row, known in zip(x, each, strict=True):
      np.testing.assert_allclose(
        codec.withheld(row, codec.compress(row)), row - known, atol=1e-6
      )
