"""The fast search for the largest entries equals `lax.top_k`; what each
selection of a config keeps, and how many bytes its messages have."""

import functools
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
from gossipjax.strategies import sparta, union_topk
from gossipjax.traffic import nbytes
from tests.support.tiers import exhaustive

pytestmark = pytest.mark.usefixtures('compile_quickly')

# Below and above a word of 32 bits, and the size from which sampling pays.
SIZES = [1, 31, 32, 33, 1000, 40000]


@functools.partial(jax.jit, static_argnums=1)
def top_k(x, k):
  return lax.top_k(jnp.abs(x), k)[1]


def plain(x, k):
  return np.asarray(top_k(x, k))


largest_of = jax.jit(largest.largest_of, static_argnums=(2, 3))


def vectors(n):
  """Vectors f32[n], by name, that could mislead a search for a threshold."""
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
def test_the_largest_entries_equal_top_k_for_every_vector(n, density):
  k = max(1, round(density * n))
  in_order = jax.jit(lambda x: largest.largest(x, k))
  ascending = jax.jit(lambda x: largest.ascending(x, k))
  for name, x in vectors(n).items():
    expected = plain(x, k)
    np.testing.assert_array_equal(in_order(x), expected, name)
    if n >= 1000:  # `largest` calls `ascending`; that suffices for short ones.
      np.testing.assert_array_equal(ascending(x), np.sort(expected), name)


@pytest.mark.parametrize('n, k', [exhaustive(40_000, 300), (600_000, 600)])
def test_sorting_and_searching_find_the_same_entries(n, k):
  for name, x in vectors(n).items():
    found = largest.ascending(x, k, by_sorting=True)
    np.testing.assert_array_equal(found, largest.ascending(x, k), name)
    np.testing.assert_array_equal(found, np.sort(plain(x, k)), name)


@pytest.mark.parametrize('by_sorting', [True, False])
@pytest.mark.parametrize('k', [1, exhaustive(40), 1000])
def test_largest_of_selects_the_largest_entries_of_a_mask(k, by_sorting):
  for name, x in vectors(1000).items():
    real = np.random.default_rng(0).random(1000) < 0.1
    found = largest_of(x, real, k, by_sorting)
    allowed = plain(np.where(real, x, 0), 1000)
    allowed = allowed[np.isin(allowed, np.flatnonzero(real))][:k]
    padding = np.full(k - allowed.size, 1000)
    expected = np.concatenate([np.sort(allowed), padding])
    np.testing.assert_array_equal(found, expected, name)


@pytest.mark.parametrize('density', [0, 0.001, 0.5, 1])
@pytest.mark.parametrize('room', [1, 8192, 8193, 20_001])
def test_bitmap_indices_are_the_first_set_bits_padded_with_size(density, room):
  size = 20_001
  few = np.random.default_rng(0).random(size) < density
  masks = np.stack([few, few & (np.arange(size) > 15_000)])
  find = jax.vmap(lambda x: bitmap.indices(bitmap.words(x), room, size))
  for mask, indices in zip(
    masks, np.asarray(jax.jit(find)(masks)), strict=True
  ):
    expected = np.flatnonzero(mask)[:room]
    np.testing.assert_array_equal(indices[: expected.size], expected)
    assert (indices[expected.size :] == size).all()


@pytest.mark.exhaustive
def test_nans_with_all_bits_set_are_selected_in_order():
  x = np.full(40000, 0xFFFFFFFF, np.uint32).view(np.float32)
  np.testing.assert_array_equal(largest.ascending(x, 300), np.arange(300))


@pytest.mark.exhaustive
@pytest.mark.parametrize('k', [1_000, 10_000, 10_416, 100_000, 1_000_000])
def test_temporary_memory_is_at_most_a_fifth_of_the_vector(
  k, compile_as_always
):
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
def test_16_bit_floats_are_compared_exactly(dtype):
  x = jnp.asarray(vectors(40000)['normal'], dtype)
  np.testing.assert_array_equal(largest.largest(x, 400), plain(x, 400))


@pytest.mark.exhaustive
def test_a_batched_search_equals_separate_searches():
  # Some of the vectors need one pass, others thirty.
  x = np.stack(list(vectors(40000).values()))
  found = jax.jit(jax.vmap(lambda x: largest.largest(x, 400)))(x)
  np.testing.assert_array_equal(found, [plain(row, 400) for row in x])


@pytest.mark.exhaustive
@pytest.mark.parametrize('k', [1, 400])
def test_above_finds_the_largest_entries_for_any_guess(k):
  x, least = np.stack(list(vectors(4000).values())), -(-8 * k // 10)
  above = jax.jit(
    jax.vmap(lambda x, guess: largest.above(x, least, k, guess)[0], (0, None))
  )
  for guess in (0, 2.5, np.inf):
    found = np.asarray(above(x, np.float32(guess)))
    for row, indices in zip(x, found, strict=True):
      kept = indices[indices < row.size]
      assert least <= kept.size <= k
      np.testing.assert_array_equal(kept, np.sort(plain(row, k)[: kept.size]))
      assert (indices[kept.size :] == row.size).all()


def test_a_good_guess_is_kept_as_the_threshold():
  x = vectors(40000)['normal']
  guess = np.sort(np.abs(x))[-95]
  assert largest.above(x, 80, 100, guess)[1] == guess


NAMES = [m.name for m in pkgutil.iter_modules(selections.__path__)]
N, K = 40000, 400


def make(name):
  found = importlib.import_module(f'gossipjax.compressors.selections.{name}')
  return found.selection()


def chosen(selection, x, step=0, memory=None):
  memory = selection.begin() if memory is None else memory
  return jax.jit(selection.select, static_argnums=1)(
    x, K, jnp.int32(step), memory
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', NAMES)
def test_selected_indices_are_distinct_and_survive_narrowing(name):
  selection = make(name)
  for kind, x in vectors(N).items():
    memory = selection.begin()
    for step in range(2):
      indices, memory = chosen(selection, x, step, memory)
      found = np.asarray(indices)
      real = found[found < N]
      assert indices.shape == (K,) and (found <= N).all(), kind
      assert len(set(real)) == real.size >= 0.8 * K, kind
      np.testing.assert_array_equal(
        selection.widen(selection.narrow(indices, N), N), indices
      )


def kept(x, indices):
  """The energy of these entries relative to that of the k largest."""
  best = np.sort(x**2)[-K:].sum()
  return (x[indices[indices < x.size]] ** 2).sum() / best


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', NAMES)
def test_a_selection_keeps_most_energy_of_the_exact_one(name):
  selection, memory = make(name), None
  for step in range(3):
    x = np.random.default_rng(step).standard_normal(N)
    indices, memory = chosen(selection, x.astype(np.float32), step, memory)
    assert kept(x, np.asarray(indices)) >= {'exact': 1, 'blockwise': 0.8}.get(
      name, 0.82
    )


def test_a_block_sends_its_largest_entry_if_the_last_row_is_partial():
  x = np.random.default_rng(0).standard_normal(10 * K + 3, np.float32)
  x[-2] = 100
  indices, _ = chosen(make('blockwise'), x)
  rows = np.abs(np.pad(x, (0, K - 3), constant_values=0)).reshape(-1, K)
  np.testing.assert_array_equal(indices, rows.argmax(axis=0) * K + np.arange(K))


def test_a_block_of_more_entries_than_16_bits_address_is_refused():
  x = jax.ShapeDtypeStruct((2**17 + 1,), 'f4')
  with pytest.raises(UserError, match=r'blockwise.*1\.5e-05'):
    jax.eval_shape(lambda x: blockwise.selection().select(x, 2, 0, ()), x)


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', NAMES)
def test_more_entries_than_32_bit_indices_address_are_refused(name):
  selection = make(name)
  for find in (
    lambda x: sparse.choose(
      x, 0.01, selection, jnp.int32(0), selection.begin()
    ),
    lambda x: random_indices.draw(jax.random.key(0), x.size, 100),
  ):
    with pytest.raises(UserError, match='2,147,483,648 entries are more than'):
      jax.eval_shape(find, jax.ShapeDtypeStruct((2**31,), jnp.float32))


@pytest.mark.parametrize(
  'begin',
  [
    sparta.strategy(partition=True).parameters.init,
    union_topk.strategy(0.01, patience=200).gradients.init,
  ],
)
def test_so_are_they_by_strategies_that_choose_by_themselves(begin):
  with pytest.raises(UserError, match='2,147,483,648 entries are more than'):
    jax.eval_shape(begin, jax.ShapeDtypeStruct((2**31,), jnp.float32))


def test_a_reused_threshold_is_exact_again_every_m_steps():
  selection, x = reused.selection(3), vectors(N)['normal']
  _, memory = chosen(selection, x)
  number = lambda step: int(
    (chosen(selection, 2 * x, step, memory)[0] < N).sum()
  )
  assert [number(step) == K for step in (1, 2, 3)] == [False, False, True]
  # For a vector close to the last one, the threshold is reused.
  assert chosen(selection, 1.001 * x, 1, memory)[1] == memory


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'name, dtype, entry_bytes',
  [
    ('exact', 'float32', 8),
    ('exact', 'bfloat16', 6),
    ('reused', 'float32', 8),
    ('sampled', 'float32', 8),
    ('blockwise', 'float32', 6),
    ('blockwise', 'bfloat16', 4),
  ],
)
def test_all_message_bytes_are_billed_and_rounding_errors_remembered(
  name, dtype, entry_bytes
):
  settings = resolve.strategy_config(
    'topk', density=0.01, dtype=dtype, selection=name
  )
  mean = resolve.strategy(settings).gradients
  x = np.random.default_rng(0).standard_normal((2, N), np.float32)
  state = executors.on_one_device(mean.init)(x)
  update = executors.on_one_device(lambda x, s, step: mean.update(x, s, step))
  found, state, sent = update(x, state, step=jnp.int32(0))
  assert list(sent.bytes) == [entry_bytes * K] * 2
  np.testing.assert_allclose(
    2 * found[0] + state.residual.sum(axis=0), x.sum(axis=0), atol=1e-5
  )
  codec = compressors.topk(0.01, make(name), dtype)
  message, _ = jax.eval_shape(
    lambda x: codec.next(x, None, jnp.int32(0), codec.begin()), x[0]
  )
  assert nbytes(message) == entry_bytes * K


def test_a_config_sets_the_selection_within_a_compressor():
  settings = resolve.strategy_config('compressed')
  settings.compressor.update({'name': 'topk_int8', 'density': 0.01})
  settings.compressor.selection.name = 'reused'
  settings.compressor.selection.period = 2
  state = resolve.strategy(settings).gradients.init(jnp.zeros(N))
  assert state.past.shape == ()
  settings.compressor.selection.name = 'sampeld'
  with pytest.raises(UserError, match=r"selection\.name=sampeld.*'sampled'"):
    resolve.strategy(settings)


def test_compress_refuses_a_selection_with_memory():
  codec = compressors.topk(0.01, reused.selection())
  with pytest.raises(
    UserError, match='choice of the previous step, which is not kept'
  ):
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
