"""What the stages of a sparse exchange cost, as ratios to reading n entries.

python -m benchmarks.exchange
"""

import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax.compressors import Sparse, largest, merging, packing, sparse

SIZES = [
  (220_234, 2_202),
  (1_000_000, 1_000),
  (1_000_000, 10_000),
  (25_600_000, 25_600),
]  # n, k


def in_turns(calls: dict[str, Callable], turns: int = 7) -> dict[str, float]:
  """Seconds of each, medians; the first turn compiles and does not count."""
  seconds = {name: [] for name in calls}
  for turn in range(turns + 1):
    for name, call in calls.items():
      began = time.perf_counter()
      jax.block_until_ready(call())
      if turn:
        seconds[name].append(time.perf_counter() - began)
  return {name: statistics.median(s) for name, s in seconds.items()}


def compiled(stages: dict[str, tuple]) -> dict[str, Callable]:
  """Of `(function, *arguments)`; arguments, for constants would be folded."""
  call = lambda function, *args: lambda f=jax.jit(function): f(*args)
  return {name: call(*stage) for name, stage in stages.items()}


def show(title: str, seconds: dict[str, float]) -> None:
  """One line, relative to the first of them."""
  first, unit = next(iter(seconds.items()))
  print(
    f'{title}, over {first}: '
    + ', '.join(f'{name} {s / unit:.2f}' for name, s in seconds.items()),
    flush=True,
  )


def message(n: int, k: int, rng: np.random.Generator) -> Sparse:
  """Of k entries drawn by lot."""
  indices = np.sort(rng.choice(n, k, replace=False)).astype(np.int32)
  return jax.device_put(Sparse(rng.standard_normal(k, np.float32), indices))


def stages(n: int, k: int) -> dict[str, tuple]:
  """What a worker does with a vector of n and messages of k."""
  rng = np.random.default_rng(0)
  x = jnp.asarray(rng.standard_normal(n, np.float32))
  a, b = message(n, k, rng), message(n, k, rng)
  both = merging.merge(a, b, n)
  return {
    'read': (lambda x: jnp.abs(x).sum(), x),
    'lax.top_k': (lambda x: lax.top_k(jnp.abs(x), k)[1], x),
    'ascending': (lambda x: largest.ascending(x, k), x),
    'largest': (lambda x: largest.largest(x, k), x),
    'merge': (lambda a, b: merging.merge(a, b, n), a, b),
    'split': (lambda both: merging.split(both, k, n), both),
    'contains': (lambda a, b: merging.contains(a, b.indices), a, b),
    'scatter': (lambda a: sparse.topk(k / n).decompress(a, n), a),
  }


def codes(n: int, bits: int) -> dict[str, tuple]:
  """Packing beside a copy of what is unpacked."""
  x = jnp.arange(n, dtype=jnp.uint8) >> (8 - bits)
  packed = packing.pack(x, bits)
  return {
    'copy': (lambda x: x + 1, x),
    'pack': (lambda x: packing.pack(x, bits), x),
    'unpack': (lambda p: packing.unpack(p, bits, n), packed),
  }


def main() -> None:
  """Prints a line per size and per width."""
  for n, k in SIZES:
    show(f'n={n} k={k}', in_turns(compiled(stages(n, k))))
  for bits in packing.WIDTHS:
    show(f'{bits} bits', in_turns(compiled(codes(SIZES[-1][0], bits))))
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
