"""How often a step of top-k with error feedback passes over the n entries.

    python -m benchmarks.passes

The step is that of one worker with SGD; its memory and parameters are donated.
The minimum is 3 reads (gradient, memory, their sum for the selection) and 2
writes (the sum, which becomes the memory; the mean), plus 2 reads and 1 write
for SGD. Passes are counted in the compiled program: arrays of n entries that an
operation reads or writes. Scatters in place, which touch k entries, do not
count; the body of a loop counts once.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.printing import show
from gossipjax import executors
from gossipjax.audit import hlo
from gossipjax.local_step import make_worker
from gossipjax.profiling import instruction_bytes
from gossipjax.profiling.interleaved_timing import median_seconds
from gossipjax.strategies import gtopk, topk

N, DENSITY = 25_600_000, 0.001
STRATEGIES = {'topk': topk.strategy(DENSITY), 'gtopk': gtopk.strategy(DENSITY)}


def passes(program: str, n: int) -> np.ndarray:
  """Returns how often a compiled program reads and writes n entries, [2]."""
  module = hlo.parse(program)
  large = lambda arrays: sum(a.size == n for a in arrays)
  return np.sum(
    [
      [large(x) for x in instruction_bytes.touched(module, body, i)]
      for body in instruction_bytes.bodies(module)
      for i in body.values()
    ],
    axis=0,
  )


def main() -> None:
  """Prints the passes of each strategy, and its time over reading n."""
  executor = executors.executor(1, 'shard_map')
  x = executor.put(np.random.default_rng(0).standard_normal((1, N), np.float32))
  read, write = jax.jit(lambda x: jnp.abs(x).sum()), jax.jit(jnp.zeros_like)
  calls = {'read': lambda: read(x), 'write': lambda: write(x)}
  for name, strategy in STRATEGIES.items():
    init, update = make_worker(strategy, optax.sgd(0.1))
    step = executor.run(
      lambda worker, grads, step, update=update: update(worker, grads, step)[0],
      donate=(0,),
    )
    worker = [executor.run(init)(executor.put(np.zeros((1, N), np.float32)))]
    program = step.lower(worker[0], x, step=jnp.int32(1)).compile()
    reads, writes = passes(program.as_text(), N)
    print(f'{name}: {reads} reads, {writes} writes of n', flush=True)

    def call(program=program, worker=worker):
      worker[0] = program(worker[0], x, step=jnp.int32(1))
      return worker[0]

    calls[name] = call
  show(f'n={N}', median_seconds(calls, 5))


if __name__ == '__main__':
  main()
