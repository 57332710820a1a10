"""Low-bit codecs: 12-bit indices, chunks and levels, checked by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossipjax import compressors
from gossipjax.compressors import packing
from gossipjax.errors import UserError
from gossipjax.traffic import nbytes

pytestmark = pytest.mark.usefixtures('compile_quickly')


def gaussian(size, seed=0):
  return np.random.default_rng(seed).normal(size=size).astype('f4')


def round_trip(compressor, x):
  return np.asarray(
    compressor.decompress(compressor.compress(jnp.asarray(x)), x.size)
  )


def test_unpacking_inverts_packing_of_12_bit_numbers():
  numbers = np.r_[0, 4095, 4095, 0, np.arange(4096)]
  packed = packing.pack12(jnp.asarray(numbers))
  assert packed.dtype == jnp.uint8 and packed.size == numbers.size * 3 // 2
  np.testing.assert_array_equal(packing.unpack12(packed), numbers)


def test_two_indices_fill_three_bytes_in_the_order_of_sparseloco():
  packed = packing.pack12(jnp.array([0xABC, 0xDEF]))
  np.testing.assert_array_equal(packed, [0xBC, 0xFA, 0xDE])


def test_an_odd_number_of_indices_is_refused():
  with pytest.raises(ValueError, match='pairs'):
    packing.pack12(jnp.arange(3))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  'size, kept',
  [(4096, 64), (2 * 4096, 128), (4096 + 2048, 96), (4096 + 10, 65), (100, 2)],
)
def test_a_shorter_last_chunk_keeps_and_sends_its_share(size, kept):
  codec, x = compressors.chunk_topk(), gaussian(size)
  assert (round_trip(codec, x) != 0).sum() == kept
  bits = 12 * (kept + kept % 2) + 2 * (kept + -kept % 4)
  chunks = -(-size // 4096)
  assert nbytes(codec.compress(jnp.asarray(x))) == bits // 8 + 8 * chunks


def test_the_published_chunk_costs_112_bytes_and_two_levels():
  assert nbytes(compressors.chunk_topk().compress(jnp.ones(4096))) == 112 + 8


def test_long_chunks_have_indices_of_16_bits():
  x = gaussian(10_000)
  codec = compressors.chunk_topk(0.01, chunk=5000)
  assert nbytes(codec.compress(jnp.asarray(x))) == 100 * 2 + 25 + 16
  found = np.flatnonzero(round_trip(codec, x))
  for start in (0, 5000):
    largest = np.argsort(-np.abs(x[start : start + 5000]))[:50] + start
    assert set(largest) <= set(found)


@pytest.mark.parametrize('bits', [2, 4, 8])
def test_linear_rounds_to_the_nearest_level_of_its_block(bits):
  x, levels = gaussian(70), 2 ** (bits - 1) - 1
  found = round_trip(compressors.linear(bits, block=32), x)
  for start in (0, 32, 64):
    part = x[start : start + 32]
    unit = np.abs(part).max() / levels
    expected = np.round(part / unit) * unit
    np.testing.assert_allclose(
      found[start : start + 32], expected, rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize('bits', [2, 4, 8])
def test_linear_keeps_signs_in_bfloat16(bits):
  codec = compressors.linear(bits)
  x = jnp.asarray(gaussian(40_000), jnp.bfloat16)
  found = codec.decompress(codec.compress(x), x.size)
  assert not (found * x < 0).any()


def test_e3m0_rounds_to_the_nearest_power_of_two():
  most = 3.0
  x = most * np.array([1, -1, 0.72, 0.5, -0.26, 2**-6, 2**-6.4, 2**-7, 0], 'f4')
  expected = most * np.array([1, -1, 1, 0.5, -0.25, 2**-6, 2**-6, 0, 0])
  np.testing.assert_allclose(
    round_trip(compressors.e3m0(9), x), expected, rtol=1e-6
  )


@pytest.mark.parametrize('codec', [compressors.linear(), compressors.e3m0()])
def test_zeros_stay_zeros_and_a_message_of_zeros_means_zeros(codec):
  assert not round_trip(codec, np.zeros(300, 'f4')).any()
  message = jax.tree.map(jnp.zeros_like, codec.compress(gaussian(300)))
  assert not codec.decompress(message, 300).any()


@pytest.mark.parametrize(
  'make',
  [
    lambda: compressors.linear(3),
    lambda: compressors.linear(4, 0).compress(jnp.ones(3)),
    lambda: compressors.e3m0(0).compress(jnp.ones(3)),
  ],
)
def test_impossible_settings_are_refused(make):
  with pytest.raises(UserError):
    make()
