"""Seconds of the stages of a sparse exchange, over reading n entries.

python -m benchmarks.exchange
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.printing import compiled, show
from gossipjax.compressors import Sparse, largest, merging, packing, sparse
from gossipjax.profiling.interleaved_timing import median_seconds

SIZES = [
  (220_234, 2_202),
  (1_000_000, 1_000),
  (1_000_000, 10_000),
  (25_600_000, 25_600),
]  # n, k
TURNS = 7


def message(n: int, k: int, rng: np.random.Generator) -> Sparse:
  """A message of k randomly drawn entries."""
  indices = np.sort(rng.choice(n, k, replace=False)).astype(np.int32)
  return jax.device_put(Sparse(rng.standard_normal(k, np.float32), indices))


def operations(n: int, k: int) -> dict[str, tuple]:
  """What a worker does with a vector of n and messages of k entries.

  Returns:
    Name -> (function, *names of its arguments): x is f32[n]; a and b are
    messages of k entries; both is a and b merged.
  """
  return {
    'read': (lambda x: jnp.abs(x).sum(), 'x'),
    'lax.top_k': (lambda x: lax.top_k(jnp.abs(x), k)[1], 'x'),
    'ascending': (lambda x: largest.ascending(x, k), 'x'),
    'largest': (lambda x: largest.largest(x, k), 'x'),
    'merge': (lambda a, b: merging.merge(a, b, n), 'a', 'b'),
    'split': (lambda both: merging.split(both, k, n), 'both'),
    'contains': (lambda a, b: merging.contains(a, b.indices), 'a', 'b'),
    'scatter': (lambda a: sparse.topk(k / n).decompress(a, n), 'a'),
  }


def stages(n: int, k: int) -> dict[str, tuple]:
  """Returns the operations with arguments that are drawn on the host."""
  rng = np.random.default_rng(0)
  x = jnp.asarray(rng.standard_normal(n, np.float32))
  a, b = message(n, k, rng), message(n, k, rng)
  values = {'x': x, 'a': a, 'b': b, 'both': merging.merge(a, b, n)}
  return {
    name: (function, *(values[argument] for argument in names))
    for name, (function, *names) in operations(n, k).items()
  }


def coding(n: int, bits: int) -> dict[str, tuple]:
  """As `operations`, for packing, unpacking and a copy.

  The arguments are `codes` and `packed` codes.
  """
  return {
    'copy': (lambda x: x + 1, 'codes'),
    'pack': (lambda x: packing.pack(x, bits), 'codes'),
    'unpack': (lambda p: packing.unpack(p, bits, n), 'packed'),
  }


def codes(n: int, bits: int) -> dict[str, tuple]:
  """Returns the operations of `coding` with their arguments."""
  x = jnp.arange(n, dtype=jnp.uint8) >> (8 - bits)
  values = {'codes': x, 'packed': packing.pack(x, bits)}
  return {
    name: (function, values[argument])
    for name, (function, argument) in coding(n, bits).items()
  }


def main() -> None:
  """Prints a line per size and per width."""
  for n, k in SIZES:
    show(f'n={n} k={k}', median_seconds(compiled(stages(n, k)), TURNS))
  for bits in packing.WIDTHS:
    show(
      f'{bits} bits', median_seconds(compiled(codes(SIZES[-1][0], bits)), TURNS)
    )
  for n, k in SIZES:
    program = (
      jax.jit(lambda x: largest.ascending(x, k))
      .lower(jax.ShapeDtypeStruct((n,), 'f4'))
      .compile()
    )
    extra = program.memory_analysis().temp_size_in_bytes / (4 * n)
    print(f'n={n} k={k}: ascending needs {extra:.2f} n of extra memory')


if __name__ == '__main__':
  main()
