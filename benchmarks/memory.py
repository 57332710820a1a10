"""Memory of emulated workers under top-k, in copies of the parameters.

    python -m benchmarks.memory

The compiler reports the memory of a step under `vmap`, in which all workers
share a device: arguments, results that are not written in place, and
temporaries. No arrays are made, so the largest size fits anywhere. The smallest
size is also run, in its own process, to compare the peak memory of the process.
"""

import concurrent.futures
import multiprocessing
import pathlib

import jax
import jax.numpy as jnp
import optax

from gossipjax import executors
from gossipjax.local_step import make_worker
from gossipjax.strategies import topk

WORKERS, WIDTHS = 8, (1024, 3200)  # Of ten square layers: 10.5 M, 102 M.


def step():
  """A gradient of sums of squares, an exchange of 0.1 %, and SGD."""
  init, update = make_worker(topk.strategy(0.001), optax.sgd(0.1))

  def program(worker, step):
    loss = lambda params: sum((x**2).sum() for x in jax.tree.leaves(params))
    return update(worker, jax.grad(loss)(worker.params), step)

  return init, executors.on_one_device(program, donate=(0,))


def parameters(width: int):
  return {
    f'layer{i}': jax.ShapeDtypeStruct((WORKERS, width, width), 'f4')
    for i in range(10)
  }


def by_compiler(width: int) -> dict[str, float]:
  """Returns the compiler's memory, in copies of all workers' parameters."""
  init, run = step()
  worker = jax.eval_shape(executors.on_one_device(init), parameters(width))
  program = run.lower(worker, step=jax.ShapeDtypeStruct((), 'i4')).compile()
  analysis = program.memory_analysis()
  held = analysis.argument_size_in_bytes
  new = analysis.output_size_in_bytes - analysis.alias_size_in_bytes
  unit = 4 * WORKERS * 10 * width**2
  return {
    'held': held / unit,
    'made': new / unit,
    'on the way': analysis.temp_size_in_bytes / unit,
    'peak': (held + new + analysis.temp_size_in_bytes) / unit,
  }


def _peak_bytes() -> int:
  status = pathlib.Path('/proc/self/status').read_text()
  line = next(x for x in status.splitlines() if x.startswith('VmHWM'))
  return 1024 * int(line.split()[1])


def by_process(width: int) -> float:
  """Measures the same peak as the growth of the process's peak memory."""
  init, run = step()
  # Compiled before, so that the compiler's own memory is not in the difference.
  program = run.lower(
    jax.eval_shape(executors.on_one_device(init), parameters(width)),
    step=jax.ShapeDtypeStruct((), 'i4'),
  ).compile()
  before = _peak_bytes()
  worker = executors.on_one_device(init)(
    jax.tree.map(lambda x: jnp.ones(x.shape), parameters(width))
  )
  for t in range(3):
    worker, _ = jax.block_until_ready(program(worker, step=jnp.int32(t)))
  return (_peak_bytes() - before) / (4 * WORKERS * 10 * width**2)


def main() -> None:
  """Prints a line per size."""
  for width in WIDTHS:
    print(
      f'{10 * width**2 / 1e6:.0f} M, {WORKERS} workers: '
      + ', '.join(
        f'{name} {copies:.2f}' for name, copies in by_compiler(width).items()
      ),
      flush=True,
    )
  with concurrent.futures.ProcessPoolExecutor(
    1, multiprocessing.get_context('spawn')
  ) as pool:
    copies = pool.submit(by_process, WIDTHS[0]).result()
  print(f'{10 * WIDTHS[0] ** 2 / 1e6:.0f} M, run: peak {copies:.2f}')


if __name__ == '__main__':
  main()
