"""The fast selection equals `lax.top_k`, which is its plain form; what each
of the selections that a config can name keeps, and in how many bytes."""

import importlib
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gossipjax import compressors, executors
from gossipjax.compressors import (
  bitmap,
  largest,
  random_indices,
  selections,
  sparse,
)
from gossipjax.compressors.selections import blockwise, reused
from gossipjax.config import resolve
from gossipjax.errors import UserError
from gossipjax.traffic import nbytes

# Both sides of a word of 32 bits, and of where a sample is worth its while.
SIZES = [1, 31, 32, 33, 1000, 40000]


def plain(x, k):
  return np.asarray(lax.top_k(jnp.abs(x), k)[1])


def vectors(n):
  """f32[n] of every kind that could mislead a search for a threshold."""
  rng = np.random.default_rng(n)
  normal, some = rng.standard_normal(n), rng.random(n) < 0.3
  kinds = {
    'normal': normal,
    'few values': rng.integers(-2, 3, n),
    'zeros': np.zeros(n),
    'ones': np.ones(n),
    'almost all zero': normal * (rng.random(n) < 0.001),
    'heavy tails': rng.standard_cauchy(n) ** 5,
    'sorted': np.sort(normal),
    'in steps of the sample': np.where(np.arange(n) % 45, normal, 9),
    'subnormal': 1e-42 * normal,
    'with NaN': np.where(some, np.nan, normal),
    'with infinity': np.where(some, -np.inf, normal),
  }
  return {name: x.astype(np.float32) for name, x in kinds.items()}


@pytest.mark.exhaustive
@pytest.mark.parametrize('n', SIZES)
@pytest.mark.parametrize('density', [0, 0.001, 0.01, 0.2, 1])
def test_the_largest_are_those_of_top_k_whatever_the_vector(n, density):
  k = max(1, round(density * n))
  in_order = jax.jit(lambda x: largest.largest(x, k))
  ascending = jax.jit(lambda x: largest.ascending(x, k))
  for name, x in vectors(n).items():
    expected = plain(x, k)
    np.testing.assert_array_equal(in_order(x), expected, name)
    if n >= 1000:  # The few of a short vector are sorted all the same.
      np.testing.assert_array_equal(ascending(x), np.sort(expected), name)


@pytest.mark.parametrize('n, k', [(40_000, 300), (600_000, 600)])
def test_sorting_finds_what_searching_finds(n, k):
  for name, x in vectors(n).items():
    found = largest.ascending(x, k, by_sorting=True)
    np.testing.assert_array_equal(found, largest.ascending(x, k), name)
    np.testing.assert_array_equal(found, np.sort(plain(x, k)), name)


@pytest.mark.parametrize('by_sorting', [True, False])
@pytest.mark.parametrize('k', [1, 40, 1000])
def test_the_largest_of_some_are_no_others(k, by_sorting):
  for name, x in vectors(1000).items():
    real = np.random.default_rng(0).random(1000) < 0.1
    found = largest.largest_of(x, jnp.asarray(real), k, by_sorting)
    allowed = plain(np.where(real, x, 0), 1000)
    allowed = allowed[np.isin(allowed, np.flatnonzero(real))][:k]
    padding = np.full(k - allowed.size, 1000)
    expected = np.concatenate([np.sort(allowed), padding])
    np.testing.assert_array_equal(found, expected, name)


@pytest.mark.parametrize('density', [0, 0.001, 0.5, 1])
@pytest.mark.parametrize('room', [1, 8192, 8193, 20_001])
def test_a_bitmap_lists_its_first_bits_and_then_its_size(density, room):
  size = 20_001
  few = np.random.default_rng(0).random(size) < density
  masks = np.stack([few, few & (np.arange(size) > 15_000)])
  found = jax.vmap(lambda x: bitmap.indices(bitmap.words(x), room, size))(masks)
  for mask, indices in zip(masks, np.asarray(found), strict=True):
    expected = np.flatnonzero(mask)[:room]
    np.testing.assert_array_equal(indices[: expected.size], expected)
    assert (indices[expected.size :] == size).all()


@pytest.mark.exhaustive
def test_nan_of_all_bits_is_no_riddle():
  x = np.full(40000, 0xFFFFFFFF, np.uint32).view(np.float32)
  np.testing.assert_array_equal(largest.ascending(x, 300), np.arange(300))


@pytest.mark.exhaustive
@pytest.mark.parametrize('k', [1_000, 10_000, 10_416, 100_000, 1_000_000])
def test_memory_for_a_fifth_of_the_vector_is_enough_for_any_k(k):
  x = jax.ShapeDtypeStruct((1_000_000,), np.float32)
  program = largest.ascending.lower(x, k).compile()
  assert program.memory_analysis().temp_size_in_bytes <= 0.2 * 4 * x.size


@pytest.mark.exhaustive
def test_nan_is_kept_before_infinity():
  x = np.zeros(40000, np.float32)
  x[[7, 30000, 9]] = np.inf, np.nan, -np.nan
  np.testing.assert_array_equal(largest.largest(x, 3), [9, 30000, 7])


@pytest.mark.exhaustive
@pytest.mark.parametrize('dtype', ['float16', 'bfloat16'])
def test_short_floats_are_compared_exactly(dtype):
  x = jnp.asarray(vectors(40000)['normal'], dtype)
  np.testing.assert_array_equal(largest.largest(x, 400), plain(x, 400))


@pytest.mark.exhaustive
def test_each_vector_of_a_batch_is_searched_as_if_alone():
  # One of them is done after a pass while another needs thirty.
  x = np.stack(list(vectors(40000).values()))
  found = jax.jit(jax.vmap(lambda x: largest.largest(x, 400)))(x)
  np.testing.assert_array_equal(found, [plain(row, 400) for row in x])


@pytest.mark.exhaustive
@pytest.mark.parametrize('k', [1, 400])
def test_what_is_above_a_threshold_are_the_largest_whatever_the_guess(k):
  x, least = np.stack(list(vectors(4000).values())), -(-8 * k // 10)
  above = jax.jit(
    jax.vmap(lambda x, guess: largest.above(x, least, k, guess)[0], (0, None))
  )
  for guess in (0, 2.5, np.inf):
    for row, indices in zip(x, above(x, np.float32(guess)), strict=True):
      kept = np.asarray(indices[indices < row.size])
      assert least <= kept.size <= k
      np.testing.assert_array_equal(kept, np.sort(plain(row, kept.size)))
      assert (indices[kept.size :] == row.size).all()


def test_a_good_guess_is_kept_as_it_is():
  x = vectors(40000)['normal']
  guess = np.sort(np.abs(x))[-95]
  assert largest.above(x, 80, 100, guess)[1] == guess


NAMES = [m.name for m in pkgutil.iter_modules(selections.__path__)]
N, K = 40000, 400


def make(name):
  found = importlib.import_module(f'gossipjax.compressors.selections.{name}')
  return found.selection()


def chosen(how, x, step=0, memory=None):
  memory = how.begin() if memory is None else memory
  return jax.jit(how.select, static_argnums=1)(x, K, jnp.int32(step), memory)


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', NAMES)
def test_a_selection_chooses_distinct_entries_and_its_indices_come_back(name):
  how = make(name)
  for kind, x in vectors(N).items():
    memory = how.begin()
    for step in range(2):
      indices, memory = chosen(how, x, step, memory)
      real = np.asarray(indices[indices < N])
      assert indices.shape == (K,) and (indices <= N).all(), kind
      assert len(set(real)) == real.size >= 0.8 * K, kind
      np.testing.assert_array_equal(
        how.widen(how.narrow(indices, N), N), indices
      )


def kept(x, indices):
  """Of the energy that the k largest have, the part that these have."""
  best = np.sort(x**2)[-K:].sum()
  return (x[indices[indices < x.size]] ** 2).sum() / best


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', NAMES)
def test_a_selection_keeps_most_of_what_the_exact_one_keeps(name):
  how, memory = make(name), None
  for step in range(3):
    x = np.random.default_rng(step).standard_normal(N)
    indices, memory = chosen(how, x.astype(np.float32), step, memory)
    assert kept(x, np.asarray(indices)) >= {'exact': 1, 'blockwise': 0.8}.get(
      name, 0.82
    )


def test_a_block_sends_its_largest_even_if_the_last_row_is_not_full():
  x = np.random.default_rng(0).standard_normal(10 * K + 3, np.float32)
  x[-2] = 100
  indices, _ = chosen(make('blockwise'), x)
  rows = np.abs(np.pad(x, (0, K - 3), constant_values=0)).reshape(-1, K)
  np.testing.assert_array_equal(indices, rows.argmax(axis=0) * K + np.arange(K))


def test_a_block_of_more_entries_than_16_bits_tell_apart_is_refused():
  x = jax.ShapeDtypeStruct((2**17 + 1,), 'f4')
  with pytest.raises(UserError, match=r'blockwise.*1\.5e-05'):
    jax.eval_shape(lambda x: blockwise.selection().select(x, 2, 0, ()), x)


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', NAMES)
def test_entries_beyond_indices_of_32_bits_are_refused(name):
  how = make(name)
  for find in (
    lambda x: sparse.choose(x, 0.01, how, jnp.int32(0), how.begin()),
    lambda x: random_indices.draw(jax.random.key(0), x.size, 100),
  ):
    with pytest.raises(UserError, match='2,147,483,648 entries are more than'):
      jax.eval_shape(find, jax.ShapeDtypeStruct((2**31,), jnp.float32))


def test_a_threshold_is_exact_again_in_every_mth_step():
  how, x = reused.selection(3), vectors(N)['normal']
  _, memory = chosen(how, x)
  number = lambda step: int((chosen(how, 2 * x, step, memory)[0] < N).sum())
  assert [number(step) == K for step in (1, 2, 3)] == [False, False, True]
  # Close to the last vector, it is the same threshold.
  assert chosen(how, 1.001 * x, 1, memory)[1] == memory


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'name, dtype, each',
  [
    ('exact', 'float32', 8),
    ('exact', 'bfloat16', 6),
    ('reused', 'float32', 8),
    ('sampled', 'float32', 8),
    ('blockwise', 'float32', 6),
    ('blockwise', 'bfloat16', 4),
  ],
)
def test_every_byte_of_a_message_travels_and_its_rounding_is_remembered(
  name, dtype, each
):
  settings = resolve.strategy_config(
    'topk', density=0.01, dtype=dtype, selection=name
  )
  mean = resolve.strategy(settings).gradients
  x = np.random.default_rng(0).standard_normal((2, N), np.float32)
  state = executors.on_one_device(mean.init)(x)
  update = executors.on_one_device(lambda x, s, step: mean.update(x, s, step))
  found, state, sent = update(x, state, step=jnp.int32(0))
  assert list(sent.bytes) == [each * K] * 2
  np.testing.assert_allclose(
    2 * found[0] + state.residual.sum(axis=0), x.sum(axis=0), atol=1e-5
  )
  codec = compressors.topk(0.01, make(name), dtype)
  message, _ = jax.eval_shape(
    lambda x: codec.next(x, None, jnp.int32(0), codec.begin()), x[0]
  )
  assert nbytes(message) == each * K


def test_a_config_says_how_to_select_also_within_a_compressor():
  settings = resolve.strategy_config('compressed')
  settings.compressor.update({'name': 'topk_int8', 'density': 0.01})
  settings.compressor.selection.name = 'reused'
  settings.compressor.selection.period = 2
  state = resolve.strategy(settings).gradients.init(jnp.zeros(N))
  assert state.past.shape == ()
  settings.compressor.selection.name = 'sampeld'
  with pytest.raises(UserError, match=r"selection\.name=sampeld.*'sampled'"):
    resolve.strategy(settings)


def test_a_memory_that_a_strategy_would_not_keep_is_refused():
  codec = compressors.topk(0.01, reused.selection())
  with pytest.raises(UserError, match='only topk'):
    codec.compress(jnp.zeros(N))


@pytest.mark.parametrize(
  'setting',
  [
    {'selection': {'name': 'reused', 'period': 0}},
    {'selection': {'name': 'sampled', 'rate': 0.0}},
    {'dtype': 'float16'},
  ],
)
def test_impossible_settings_are_refused(setting):
  with pytest.raises(UserError):
    resolve.strategy(resolve.strategy_config('topk', **setting))
