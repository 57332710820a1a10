"""The fast selection equals `lax.top_k`, which is its plain form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gossipjax.compressors import selection

# Both sides of a word of 32 bits, and of where a sample is worth its while.
SIZES = [1, 31, 32, 33, 1000, 40000]


def plain(x, k):
  return np.asarray(lax.top_k(jnp.abs(x), k)[1])


def vectors(n):
  """f32[n] of every kind that could mislead a search for a threshold."""
  rng = np.random.default_rng(n)
  normal, some = rng.standard_normal(n), rng.random(n) < 0.3
  kinds = {
      'normal': normal, 'few values': rng.integers(-2, 3, n),
      'zeros': np.zeros(n), 'ones': np.ones(n),
      'almost all zero': normal * (rng.random(n) < 0.001),
      'heavy tails': rng.standard_cauchy(n)**5, 'sorted': np.sort(normal),
      'in steps of the sample': np.where(np.arange(n) % 45, normal, 9),
      'subnormal': 1e-42 * normal, 'with NaN': np.where(some, np.nan, normal),
      'with infinity': np.where(some, -np.inf, normal)}
  return {name: x.astype(np.float32) for name, x in kinds.items()}


@pytest.mark.parametrize('n', SIZES)
@pytest.mark.parametrize('density', [0, 0.001, 0.01, 0.2, 1])
def test_the_largest_are_those_of_top_k_whatever_the_vector(n, density):
  k = max(1, round(density * n))
  in_order = jax.jit(lambda x: selection.largest(x, k))
  ascending = jax.jit(lambda x: selection.ascending(x, k))
  for name, x in vectors(n).items():
    expected = plain(x, k)
    np.testing.assert_array_equal(in_order(x), expected, name)
    np.testing.assert_array_equal(ascending(x), np.sort(expected), name)


def test_nan_is_kept_before_infinity():
  x = np.zeros(40000, np.float32)
  x[[7, 30000, 9]] = np.inf, np.nan, -np.nan
  np.testing.assert_array_equal(selection.largest(x, 3), [9, 30000, 7])


@pytest.mark.parametrize('dtype', ['float16', 'bfloat16'])
def test_short_floats_are_compared_exactly(dtype):
  x = jnp.asarray(vectors(40000)['normal'], dtype)
  np.testing.assert_array_equal(selection.largest(x, 400), plain(x, 400))


def test_each_vector_of_a_batch_is_searched_as_if_alone():
  # One of them is done after a pass while another needs thirty.
  x = np.stack(list(vectors(40000).values()))
  found = jax.jit(jax.vmap(lambda x: selection.largest(x, 400)))(x)
  np.testing.assert_array_equal(found, [plain(row, 400) for row in x])


@pytest.mark.parametrize('k', [1000, 10000])
def test_it_needs_no_copy_of_the_vector(k):
  n = 10**6
  vector = jax.ShapeDtypeStruct((n,), 'f4')
  program = jax.jit(lambda x: selection.ascending(x, k)).lower(vector)
  assert program.compile().memory_analysis().temp_size_in_bytes < 0.25 * 4 * n
