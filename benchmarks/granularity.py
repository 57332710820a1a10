"""The cost of an exchange by its pieces: the model, buckets, or layers.

    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 python -m benchmarks.granularity

Times one `update` with SGD of eight workers, batched on one device, over
reading their entries once, and prints what worker 0 sends. The tree is
ResNet-20's, 1.1 MB in 61 leaves; its smallest leaf has 10 entries, of which no
share below 0.1 can be kept. Times do not include a link's latency, which is
paid per message. Takes four minutes, mostly for compiling the layers.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.printing import show
from gossipjax import executors, models
from gossipjax.config import resolve
from gossipjax.local_step import make_worker
from gossipjax.profiling.interleaved_timing import median_seconds

WORKERS, DENSITY = 8, 0.1
PIECES = {
  'model': 'model',
  **{f'{n}': {'name': 'bucket', 'bytes': n} for n in (2**20, 2**18, 2**16)},
  'layer': 'layer',
}
STRATEGIES = ('topk', 'gtopk')


def main() -> None:
  """Prints a line per strategy and granularity, then their times."""
  shapes = jax.eval_shape(
    models.make('resnet20', 10).init,
    jax.random.key(0),
    jnp.zeros((1, 32, 32, 3)),
  )['params']
  grads = jax.tree.map(
    lambda x: jnp.asarray(
      np.random.default_rng(0).standard_normal((WORKERS, *x.shape), np.float32)
    ),
    shapes,
  )
  flat = jnp.concatenate([x.ravel() for x in jax.tree.leaves(grads)])
  read = jax.jit(lambda x: jnp.abs(x).sum())
  calls = {'read': lambda: read(flat)}
  for name, granularity in itertools.product(STRATEGIES, PIECES):
    init, update = make_worker(
      resolve.strategy(
        resolve.strategy_config(
          name, density=DENSITY, granularity=PIECES[granularity]
        )
      ),
      optax.sgd(0.1),
    )
    step = executors.on_one_device(
      lambda worker, grads, step, update=update: update(worker, grads, step)
    )
    worker = executors.on_one_device(init)(grads)
    call = lambda step=step, worker=worker: step(
      worker, grads, step=jnp.int32(1)
    )
    sent = call()[1]
    print(
      f'{name}, {granularity}: {sent.messages[0]} messages, '
      f'{sent.bytes[0]} bytes',
      flush=True,
    )
    calls[f'{name} {granularity}'] = call
  show(f'{len(jax.tree.leaves(grads))} leaves', median_seconds(calls, 9))


if __name__ == '__main__':
  main()
