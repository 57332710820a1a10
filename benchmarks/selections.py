"""Energy of each selection over exact top-k, its bytes and its time.

    python -m benchmarks.selections

At each step the vector is a new draw plus a fifth of the last draw, similar to
error feedback. Draws are normal, or have heavier tails (normal to the third
power), or are normal in rows of very different sizes, as layers are.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.printing import show
from gossipjax.compressors import topk
from gossipjax.compressors.selections import (
  blockwise,
  exact,
  reused,
  sampled,
)
from gossipjax.profiling.interleaved_timing import median_seconds
from gossipjax.traffic import nbytes

N, DENSITY, STEPS = 25_600_000, 0.001, 6
WAYS = {
  'exact': topk(DENSITY),
  'reused': topk(DENSITY, reused.selection()),
  'sampled': topk(DENSITY, sampled.selection()),
  'blockwise': topk(DENSITY, blockwise.selection()),
  'blockwise, bf16': topk(DENSITY, blockwise.selection(), 'bfloat16'),
  'exact, bf16': topk(DENSITY, exact.selection(), 'bfloat16'),
}
KINDS = {
  'normal': lambda x: x,
  'heavy': lambda x: x**3,
  'layers': lambda x: (
    x * np.repeat(10 ** np.linspace(-2, 0, 100, dtype='f4'), x.size // 100)
  ),
}


@functools.partial(jax.jit, static_argnums=0)
def step(codec, x, t, memory):
  """Returns the energy that the message keeps, the memory and the message."""
  message, memory = codec.next(x, None, t, memory)
  rest = x - codec.decompress(message, x.size)
  return (x**2).sum() - (rest**2).sum(), memory, message


def energy(codec, vectors) -> float:
  """Returns the mean of the energy kept in steps after the first."""
  memory, gains = codec.begin(), []
  for t, x in enumerate(vectors):
    gain, memory, _ = step(codec, x, jnp.int32(t), memory)
    gains.append(float(gain))
  return float(np.mean(gains[1:]))


def main() -> None:
  """Prints a line per kind of vector, then bytes, then times."""
  rng = np.random.default_rng(0)
  n = N // 10
  for kind, shape in KINDS.items():
    fresh = [shape(rng.standard_normal(n, np.float32)) for _ in range(STEPS)]
    vectors = [a + 0.2 * b for a, b in zip(fresh[1:], fresh[:-1], strict=True)]
    energies = {name: energy(codec, vectors) for name, codec in WAYS.items()}
    print(
      f'{kind}, n={n}: energy over exact: '
      + ', '.join(
        f'{name} {value / energies["exact"]:.3f}'
        for name, value in energies.items()
      ),
      flush=True,
    )
  x = jnp.asarray(rng.standard_normal(N, np.float32))
  calls = {'read': lambda read=jax.jit(lambda x: jnp.abs(x).sum()): read(x)}
  for name, codec in WAYS.items():
    _, memory, message = step(codec, x, jnp.int32(0), codec.begin())
    print(f'{name}: {nbytes(message) / round(DENSITY * N):.2f} bytes an entry')
    follow = jax.jit(
      lambda x, t, memory, codec=codec: codec.next(x, None, t, memory)[0]
    )
    calls[name] = lambda f=follow, memory=memory: f(x, jnp.int32(1), memory)
  show(f'n={N}', median_seconds(calls, 5))


if __name__ == '__main__':
  main()
