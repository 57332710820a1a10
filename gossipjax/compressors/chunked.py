"""Few entries of each chunk of a vector, in few bits each."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.compressors import packing
from gossipjax.compressors.compressor import Compressor
from gossipjax.compressors.sparse import check_keeps, count
from gossipjax.errors import UserError
from gossipjax.norms import needs_floats, wide

PACKED = 2**12  # A chunk of at most so many entries has indices of 12 bits.


class Levels(NamedTuple):
  """Values as signs times one of two levels of their chunk."""

  codes: jax.Array  # u8, 2 bits each; sign, and index of the level.
  levels: jax.Array  # f32[chunks, 2]; mean magnitudes of small, large entries.


class Chunks(NamedTuple):
  """The kept entries of all chunks, one chunk after the other."""

  indices: jax.Array  # Within the chunk: 12 bits each in u8, or u16.
  values: jax.Array | Levels  # f32, or in 2 bits each.


def _parts(size: int, chunk: int, density: float) -> list[tuple[int, int, int]]:
  """(chunks, width, entries kept of each) of all full chunks and of the rest.

  The rest keeps the same share, at least one entry.
  """
  full, rest = divmod(size, chunk)
  parts = [(full, chunk, count(density, chunk))] if full else []
  if rest:
    parts.append((1, rest, count(density, rest)))
  return parts


def _split(x: jax.Array, lengths) -> list[jax.Array]:
  """A vector cut into pieces of these lengths."""
  starts = [sum(lengths[:i]) for i in range(len(lengths))]
  return [x[s : s + n] for s, n in zip(starts, lengths, strict=True)]


def _to_levels(values: list[jax.Array]) -> Levels:
  """Encodes the values of each part, f32[chunks, k]."""
  codes, levels = [], []
  for part in values:
    magnitude = jnp.abs(part)
    large = magnitude >= magnitude.mean(axis=1, keepdims=True)
    mean = lambda mask, m=magnitude: (
      (m * mask).sum(axis=1) / jnp.maximum(1, mask.sum(axis=1))
    )
    codes.append((2 * (part < 0) + large).ravel())
    levels.append(jnp.stack([mean(~large), mean(large)], axis=1))
  return Levels(
    packing.pack(jnp.concatenate(codes), 2), jnp.concatenate(levels)
  )


def _from_levels(message: Levels, parts) -> list[jax.Array]:
  """The inverse of `_to_levels`, up to rounding to levels."""
  kept = [rows * k for rows, _, k in parts]
  codes = _split(packing.unpack(message.codes, 2, sum(kept)), kept)
  levels = _split(message.levels, [rows for rows, _, _ in parts])
  values = []
  for code, level, (rows, _, k) in zip(codes, levels, parts, strict=True):
    code = code.reshape(rows, k)
    size = jnp.take_along_axis(level, (code & 1).astype(jnp.int32), axis=1)
    values.append(jnp.where(code & 2, -size, size))
  return values


def _pack_indices(indices: jax.Array, chunk: int) -> jax.Array:
  if chunk > PACKED:
    return indices.astype(jnp.uint16)
  return packing.pack12(jnp.pad(indices, (0, indices.size % 2)))


def _largest_of(x: jax.Array, parts):
  """Indices and values of the kept entries, f32[chunks, k] of each part."""
  pieces = _split(x, [rows * width for rows, width, _ in parts])
  indices, values = [], []
  for piece, (rows, width, k) in zip(pieces, parts, strict=True):
    entries = piece.reshape(rows, width)
    indices.append(lax.top_k(jnp.abs(entries), k)[1])
    values.append(jnp.take_along_axis(entries, indices[-1], axis=1))
  return indices, values


def _check(density: float, chunk: int, bits: int) -> None:
  """Raises a UserError for arguments out of range."""
  if not 1 <= chunk <= 2**16:
    raise UserError(f'chunk must be from 1 to 65536 entries, got {chunk}.')
  if bits not in (2, 32):
    raise UserError(f'bits of chunk_topk is 2 or 32, got {bits}.')
  count(density, chunk)
  check_keeps(density, chunk)


def chunk_topk(
  density: float = 64 / 4096, chunk: int = 4096, bits: int = 2
) -> Compressor:
  """The largest entries of each chunk, as signs times one of two levels.

  It takes 2 bits and an index of 12 bits per entry (16 if a chunk is longer
  than 4,096), and 8 bytes per chunk; 12-bit indices are padded to an even
  number. A last, shorter chunk keeps the same share. Chunk, density, 2 bits and
  packed indices are those of SparseLoCo's authors, whose chunks are blocks of
  64 x 64; the levels are ours (theirs are the means of 4 bins of a whole
  tensor).

  Sarfi et al., Communication efficient LLM pre-training with SparseLoCo, 2025.
  arXiv:2508.15706

  Args:
    density: k / chunk.
    chunk: entries of a chunk; a shorter vector is one chunk.
    bits: of a value: 2, or 32, which keeps values as they are.
  """
  _check(density, chunk, bits)

  def compress(x, key=None):
    del key
    needs_floats(x)
    indices, values = _largest_of(x, _parts(x.size, chunk, density))
    joined = lambda parts: jnp.concatenate([part.ravel() for part in parts])
    coded = _to_levels(values) if bits == 2 else joined(values)
    return Chunks(_pack_indices(joined(indices), chunk), coded)

  def decompress(message, size):
    parts = _parts(size, chunk, density)
    kept = [rows * k for rows, _, k in parts]
    short = chunk <= PACKED
    indices = packing.unpack12(message.indices) if short else message.indices
    values = message.values
    values = _from_levels(values, parts) if bits == 2 else _split(values, kept)
    chunks = [
      _spread(i, v, *part)
      for i, v, part in zip(_split(indices, kept), values, parts, strict=True)
    ]
    return jnp.concatenate(chunks)

  return Compressor(compress, decompress)


def _spread(indices, values, rows: int, width: int, k: int) -> jax.Array:
  """The entries of `rows` chunks of one width, f32[rows * width]."""
  at = jnp.arange(rows)[:, None], indices.astype(jnp.int32).reshape(rows, k)
  zeros = jnp.zeros((rows, width), wide(values.dtype))
  chunks = zeros.at[at].add(values.reshape(rows, k))
  return chunks.ravel()
