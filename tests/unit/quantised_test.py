"""Compressors: message sizes, means, zeros, extreme values and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossipjax import compressors
from gossipjax.compressors import packing, random_indices
from gossipjax.errors import UserError
from gossipjax.traffic import nbytes
from tests.support.tiers import exhaustive

pytestmark = pytest.mark.usefixtures('compile_quickly')

KEY = jax.random.key(0)


def jitted(codec):
  """The codec as one program per function, not one per operation."""
  return codec._replace(
    compress=jax.jit(codec.compress),
    decompress=jax.jit(codec.decompress, static_argnums=1),
  )


# Name: compressor, bits per entry of the vector, further bits per message.
CLAIMS = {
  'none': (compressors.none(), 32, 0),
  'int8': (compressors.int8(), 8, 32),
  'sign': (compressors.sign(), 1, 32),
  'two_bit': (compressors.two_bit(), 2, 0),
  'terngrad': (compressors.terngrad(), 2, 32),
  'qsgd_1': (compressors.qsgd(levels=1, bucket=10**4), 2, 32),
  'qsgd_7': (compressors.qsgd(levels=7, bucket=10**4), 4, 32),
  'qsgd_127': (compressors.qsgd(levels=127, bucket=10**4), 8, 32),
  'topk': (compressors.topk(0.25), 64 / 4, 0),
  'topk_int8': (compressors.topk_int8(0.25), 40 / 4, 32),
  'threshold': (compressors.threshold(1.0, 0.25), 64 / 4, 0),
  'random_k': (compressors.random_k(0.25), 32 / 4, 32),
  'chunk_topk': (compressors.chunk_topk(0.25), 14 / 4, 64),
  'linear_2': (compressors.linear(2, 10**4), 2, 32),
  'linear_4': (compressors.linear(4, 10**4), 4, 32),
  'linear_8': (compressors.linear(8, 10**4), 8, 32),
  'e3m0': (compressors.e3m0(10**4), 4, 32),
}
CLAIMS = {
  name: (jitted(codec), *bits) for name, (codec, *bits) in CLAIMS.items()
}
UNBIASED = {
  'terngrad': compressors.terngrad(clip=None),
  'qsgd_1': compressors.qsgd(levels=1, bucket=16),
  'qsgd_7': compressors.qsgd(levels=7),
  'random_k': compressors.random_k(0.25, unbiased=True),
}


def gaussian(size, seed=1):
  return jnp.asarray(np.random.default_rng(seed).standard_normal(size, 'f4'))


pack = jax.jit(packing.pack, static_argnums=1)
unpack = jax.jit(packing.unpack, static_argnums=(1, 2))


@pytest.mark.exhaustive
@given(st.sampled_from(packing.WIDTHS), st.integers(0, 70), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_unpacking_restores_packed_codes_of_any_length(bits, size, seed):
  codes = np.random.default_rng(seed).integers(0, 2**bits, size)
  packed = pack(jnp.asarray(codes), bits)
  assert packed.dtype == jnp.uint8 and packed.size == -(-size * bits // 8)
  np.testing.assert_array_equal(unpack(packed, bits, size), codes)


@pytest.mark.parametrize(
  ('largest', 'width'), [(1, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 3)]
)
def test_numbers_take_as_few_bytes_as_the_largest_one_needs(largest, width):
  numbers = jnp.array([[0, 1, largest // 2], [largest - 1, 0, largest]])
  octets = packing.octets(numbers, largest)
  assert octets.shape == (2, width, 3) and octets.dtype == jnp.uint8
  np.testing.assert_array_equal(packing.from_octets(octets), numbers)


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', CLAIMS)
@pytest.mark.parametrize('size', [400, 1200])
def test_a_message_has_the_declared_number_of_bytes(name, size):
  compressor, bits, more = CLAIMS[name]
  message = compressor.compress(gaussian(size), KEY)
  assert nbytes(message) * 8 == bits * size + more


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', CLAIMS)
@pytest.mark.parametrize('size', [40, 397])
def test_a_message_decompresses_to_a_vector_of_the_same_length(name, size):
  compressor, x = CLAIMS[name][0], gaussian(size)
  back = compressor.decompress(compressor.compress(x, KEY), size)
  assert back.shape == x.shape and back.dtype == x.dtype
  assert jnp.dot(back, x) > 0  # At less than 90 degrees to the input.


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', CLAIMS)
def test_zero_messages_and_zero_vectors_decompress_to_zeros(name):
  compressor = CLAIMS[name][0]
  message = compressor.compress(gaussian(40), KEY)
  zero_message = jax.tree.map(np.zeros_like, message)
  np.testing.assert_array_equal(compressor.decompress(zero_message, 40), 0)
  zeros = compressor.compress(jnp.zeros(40), KEY)
  np.testing.assert_array_equal(compressor.decompress(zeros, 40), 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', CLAIMS)
def test_the_sum_of_messages_is_the_sum_of_their_vectors(name):
  compressor = CLAIMS[name][0]
  messages = [
    compressor.compress(gaussian(40, i), jax.random.key(i)) for i in range(3)
  ]
  stacked = jax.tree.map(lambda *xs: np.stack(xs), *messages)
  np.testing.assert_allclose(
    jax.jit(compressor.mean, static_argnums=1)(stacked, 40, 1),
    sum(compressor.decompress(m, 40) for m in messages),
    atol=1e-5,
  )


@pytest.mark.exhaustive
@pytest.mark.parametrize('name', UNBIASED)
def test_the_mean_over_random_keys_is_the_vector(name):
  # The mean of m draws is off by a normal error of std / sqrt(m); six times
  # that is beyond chance in 64 entries, and a bias of 10 % is far beyond it.
  compressor, x, draws = UNBIASED[name], gaussian(64), 20_000
  keys = jax.random.split(jax.random.key(2), draws)
  round_trip = lambda key: compressor.decompress(
    compressor.compress(x, key), x.size
  )
  back = jax.jit(jax.vmap(round_trip))(keys)
  bound = 6 * back.std(axis=0) / draws**0.5 + 1e-6
  assert (jnp.abs(back.mean(axis=0) - x) <= bound).all()
  assert (back != x[None]).any()


def test_terngrad_clips_at_a_multiple_of_the_standard_deviation():
  x = jnp.zeros(100).at[0].set(1.0)
  message = compressors.terngrad(clip=2.5).compress(x, KEY)
  np.testing.assert_allclose(message.scale, 2.5 * np.std(x), rtol=1e-6)


@pytest.mark.exhaustive
def test_terngrad_restores_equal_entries_exactly():
  """In float32 three entries of 0.1 deviate by 7e-9 from their mean."""
  for value, size in (-3.0, 1), (-3.0, 8), (0.1, 3), (0.3, 10), (0.3, 1000):
    x = jnp.full(size, value)
    codec = CLAIMS['terngrad'][0]
    np.testing.assert_array_equal(
      codec.decompress(codec.compress(x, KEY), size), x
    )


@pytest.mark.parametrize('power', [-100, -60, 0, 60, 120])
def test_qsgd_rounds_alike_at_every_scale(power):
  """Squares of its entries neither underflow nor overflow."""
  codec, x = compressors.qsgd(127), jnp.array([1, -0.7, 0.5, 0.01, 0, 0.3])
  back = lambda x: codec.decompress(codec.compress(x, KEY), x.size)
  np.testing.assert_array_equal(
    back(jnp.ldexp(x, power)), jnp.ldexp(back(x), power)
  )


@pytest.mark.parametrize('name', ['int8', 'topk_int8', 'linear'])
def test_the_largest_float16_values_do_not_overflow(name):
  codec = {
    'int8': compressors.int8(),
    'topk_int8': compressors.topk_int8(1.0),
    'linear': compressors.linear(8),
  }[name]
  x = jnp.array([65504, 20000, 100], jnp.float16)
  back = codec.decompress(codec.compress(x), x.size)
  np.testing.assert_allclose(back, x, atol=65504 / 100)


@pytest.mark.parametrize('levels', [7, 127])
def test_qsgd_has_no_level_beyond_the_norm(levels, monkeypatch):
  almost_one = lambda key, shape: jnp.full(shape, 1 - 2**-24, jnp.float32)
  monkeypatch.setattr(jax.random, 'uniform', almost_one)
  compressor = compressors.qsgd(levels)
  message = compressor.compress(jnp.array([2.0]), KEY)
  assert float(compressor.decompress(message, 1)[0]) == 2.0


@pytest.mark.exhaustive
def test_qsgd_decompresses_to_its_levels_only():
  x = gaussian(100)
  compressor = jitted(compressors.qsgd(levels=3, bucket=50))
  level = compressor.decompress(compressor.compress(x, KEY), 100).reshape(2, 50)
  level *= 3 / jnp.linalg.norm(x.reshape(2, 50), axis=1)[:, None]
  np.testing.assert_allclose(level, jnp.round(level), atol=1e-5)
  assert jnp.abs(level).max() <= 3 and len(np.unique(jnp.round(level))) > 2


def test_two_bit_is_the_codec_of_mxnet():
  x = jnp.array([0.7, 0.5, 0.49, 0.0, -0.49, -0.5, -2.0])
  compressor = compressors.two_bit(threshold=0.5)
  message = compressor.compress(x)
  np.testing.assert_array_equal(
    packing.unpack(message, 2, 7), [0b11, 0b11, 0, 0, 0, 0b10, 0b10]
  )
  np.testing.assert_array_equal(
    compressor.decompress(message, 7), [0.5, 0.5, 0, 0, 0, -0.5, -0.5]
  )


def test_sign_decodes_to_the_mean_magnitude():
  compressor, x = compressors.sign(), jnp.array([3.0, -1.0, 0.0, -4.0])
  np.testing.assert_array_equal(
    compressor.decompress(compressor.compress(x), 4), [2.0, -2.0, 2.0, -2.0]
  )


@pytest.mark.exhaustive
def test_chunk_topk_keeps_the_largest_of_each_chunk_at_two_levels():
  x = jnp.array([1.0, -8.0, 2.0, 6.0, 0.0, 3.0, 40.0, -20.0, 10.0, 30.0])
  compressor = jitted(compressors.chunk_topk(0.5, chunk=4))
  back = compressor.decompress(compressor.compress(x), 10)
  np.testing.assert_array_equal(
    back, [0.0, -8.0, 0.0, 6.0, 0.0, 0.0, 40.0, -20.0, 0.0, 30.0]
  )
  compressor = jitted(
    compressors.chunk_topk(0.3, chunk=10)
  )  # Mean magnitude is 30.
  back = compressor.decompress(compressor.compress(x), 10)
  np.testing.assert_array_equal(np.flatnonzero(back), [6, 7, 9])
  np.testing.assert_array_equal(back[np.array([6, 7, 9])], [35.0, -20.0, 35.0])


def test_random_k_draws_distinct_entries_and_others_with_another_key():
  compressor, x = compressors.random_k(0.25), jnp.ones(100)
  first, second = (
    compressor.decompress(compressor.compress(x, jax.random.key(i)), 100)
    for i in range(2)
  )
  assert first.sum() == second.sum() == 25 and (first != second).any()


@pytest.mark.exhaustive
def test_random_k_draws_all_entries_and_pairs_of_neighbors_equally_often():
  keys = jax.random.split(jax.random.key(0), 4000)
  drawn = np.asarray(
    jax.vmap(lambda key: random_indices.draw(key, 100, 25))(keys)
  )
  seen = (drawn[:, :, None] == np.arange(100)).any(axis=1)
  assert (np.diff(drawn) > 0).all()
  # Six standard deviations of a count of independent draws are beyond chance.
  for found, p in ((seen, 1 / 4), (seen[:, 1:] & seen[:, :-1], 24 / 99 / 4)):
    error = 6 * np.sqrt(p * (1 - p) / len(keys))
    assert abs(found.mean(axis=0) - p).max() < error


def test_threshold_sends_no_small_entry_and_at_most_its_density():
  x = jnp.arange(-50.0, 50.0)

  def back(t, density):
    codec = jitted(compressors.threshold(t, density))
    return codec.decompress(codec.compress(x), 100)

  np.testing.assert_array_equal(
    back(45.0, 0.5), jnp.where(jnp.abs(x) >= 45, x, 0)
  )
  assert (back(45.0, 0.05) != 0).sum() == 5


@pytest.mark.parametrize('name', [n for n in CLAIMS if n != 'random_k'])
@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_a_non_finite_entry_is_not_decoded_as_a_finite_one(name, bad):
  # XLA ignores NaN in maxima of many entries on a CPU, not in those of few.
  x = gaussian(5000).at[3].set(bad)
  message = CLAIMS[name][0].compress(x, KEY)
  assert not np.isfinite(CLAIMS[name][0].decompress(message, x.size)[3])


@pytest.mark.parametrize(
  'codec', [*map(jitted, [*UNBIASED.values(), compressors.terngrad()])]
)
@pytest.mark.parametrize('size', [exhaustive(400), 10_000])
def test_numbers_in_float16_are_coded_as_in_float32(codec, size):
  # Their squares, and the sum of 10,000 magnitudes, overflow in float16.
  x = (300 * gaussian(size)).astype(jnp.float16)
  found, wanted = (
    codec.decompress(codec.compress(x.astype(dtype), KEY), size)
    for dtype in (jnp.float16, jnp.float32)
  )
  np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize('name', ['terngrad', 'qsgd_7', 'random_k'])
def test_a_random_compressor_refuses_to_draw_without_a_key(name):
  with pytest.raises(UserError, match='key'):
    CLAIMS[name][0].compress(gaussian(40))


@pytest.mark.parametrize(
  'name', ['int8', 'sign', 'two_bit', 'terngrad', 'qsgd_7']
)
def test_integers_are_refused(name):
  with pytest.raises(UserError, match='floating'):
    CLAIMS[name][0].compress(jnp.arange(8), KEY)


@pytest.mark.parametrize(
  'make',
  [
    lambda: compressors.two_bit(0.0),
    lambda: compressors.qsgd(0),
    lambda: compressors.qsgd(128),
    lambda: compressors.qsgd(7, 0),
    lambda: compressors.terngrad(-1.0),
    lambda: compressors.threshold(-1.0),
    lambda: compressors.random_k(0.0),
    lambda: compressors.chunk_topk(0.0001),
    lambda: compressors.chunk_topk(0.1, 2**17),
    lambda: compressors.threshold(1.0, 2.0),
    lambda: compressors.two_bit(float('nan')),
    lambda: compressors.terngrad(float('nan')),
    lambda: compressors.threshold(float('nan')),
  ],
)
def test_impossible_settings_are_refused(make):
  with pytest.raises(UserError):
    make()


def test_an_unbiased_random_k_does_not_overflow_in_half_precision():
  compressor = compressors.random_k(0.01, unbiased=True)
  message = compressor.compress(jnp.full(200, 700, jnp.float16), KEY)
  assert message.values.dtype == jnp.float16
  found = compressor.decompress(message, 200)
  assert np.isfinite(found).all() and found.max() == 70_000
