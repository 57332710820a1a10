"""Packs codes of few bits, several to a byte, and numbers into few bytes.

XLA widens integers of fewer than 8 bits on some backends.
"""

import jax
import jax.numpy as jnp
from jax import lax

WIDTHS = (1, 2, 4, 8)  # Bits of a code; they divide 8.


def width(num_codes: int) -> int:
  """The fewest bits of WIDTHS that distinguish `num_codes` codes."""
  return next(bits for bits in WIDTHS if 2**bits >= num_codes)


def _places(bits: int, kind: type) -> jax.Array:
  """The first bit of each code in an integer of that type."""
  if bits not in WIDTHS:
    raise ValueError(f'A code has a width of {WIDTHS} bits, not {bits}.')
  return jnp.arange(0, jnp.iinfo(kind).bits, bits, dtype=kind)


def pack(codes: jax.Array, bits: int) -> jax.Array:
  """Packs codes below 2^bits, u8[n], into u8[ceil(n * bits / 8)]."""
  places = _places(bits, jnp.uint8)
  codes = jnp.pad(codes.astype(jnp.uint8), (0, -codes.size % places.size))
  codes = codes.reshape(-1, places.size)
  # The codes of a byte have no bits in common, so that a sum joins them.
  return (codes << places[None]).sum(axis=1, dtype=jnp.uint8)


def unpack(packed: jax.Array, bits: int, size: int) -> jax.Array:
  """Unpacks the first `size` codes, u8[size]."""
  if bits == 8:
    return packed[:size]
  # From words of 32 bits, since XLA unpacks single bytes more slowly.
  octets = jnp.pad(packed, (0, -packed.size % 4)).reshape(-1, 4)
  words = lax.bitcast_convert_type(octets, jnp.uint32)
  places = _places(bits, jnp.uint32)
  codes = words[:, None] >> places[None] & jnp.uint32(2**bits - 1)
  return codes.astype(jnp.uint8).reshape(-1)[:size]


def pack12(indices: jax.Array) -> jax.Array:
  """Packs pairs of numbers below 4,096 into three bytes: i[2 m] to u8[3 m].

  The first byte has the low 8 bits of the first number. The second has the high
  4 bits of the first number in its low half, and the low 4 bits of the second
  number in its high half. The third has the high 8 bits of the second number.

  Raises:
    ValueError: the count is odd.
  """
  if indices.size % 2:
    raise ValueError(f'12-bit numbers come in pairs, not {indices.size}.')
  first, second = indices.reshape(-1, 2).T.astype(jnp.uint32)
  octets = first & 255, first >> 8 | (second & 15) << 4, second >> 4
  return jnp.stack(octets, axis=1).astype(jnp.uint8).reshape(-1)


def unpack12(packed: jax.Array) -> jax.Array:
  """The numbers that `pack12` packed, i32[2 m]."""
  low, middle, high = packed.reshape(-1, 3).T.astype(jnp.int32)
  pairs = low | (middle & 15) << 8, middle >> 4 | high << 4
  return jnp.stack(pairs, axis=1).reshape(-1)


def octets(numbers: jax.Array, largest: int) -> jax.Array:
  """The bytes of numbers, the lowest first, as few as the largest one needs.

  Args:
    numbers: i32[..., n], from 0 on.
    largest: no number is larger.

  Returns:
    u8[..., bytes, n]
  """
  places = range(0, max(1, largest.bit_length()), 8)
  each = [numbers >> place & 255 for place in places]
  return jnp.stack(each, axis=-2).astype(jnp.uint8)


def from_octets(octets: jax.Array) -> jax.Array:
  """Numbers from their bytes, u8[..., bytes, n] to i32[..., n]."""
  each = jnp.moveaxis(octets, -2, 0).astype(jnp.int32)
  return sum(byte << 8 * place for place, byte in enumerate(each))
