"""Time of sending a tree to the next worker, over a vector of as many bytes.

    python -m benchmarks.permute

Eight emulated devices, a ring. "raw" is `lax.ppermute` of a vector, "leaves"
the same of the tree, "swap" the vector through `collectives.swap`, "packed"
what gossip does: the tree in few pieces, a swap, and the tree again.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.printing import show
from gossipjax import collectives, executors, flatten, models
from gossipjax.profiling.interleaved_timing import median_seconds

WORKERS = 8
MODELS = ('resnet20', 'vgg16')
SOURCE = [(i - 1) % WORKERS for i in range(WORKERS)]
WIRES = [(s, i) for i, s in enumerate(SOURCE)]


def raw(tree):
  """Sends a tree or vector with only jax."""
  return lax.ppermute(tree, collectives.WORKERS, WIRES)


def gossip(tree):
  """Sends a tree as a strategy does, without returning the traffic."""
  parts, unpack = flatten.flatten(tree)
  return unpack(collectives.swap(parts, SOURCE)[0])


def main() -> None:
  """Prints a line per model."""
  executors.emulate(WORKERS)
  executor = executors.executor(WORKERS, 'shard_map')
  for name in MODELS:
    shapes = jax.eval_shape(
      models.make(name, 10).init, jax.random.key(0), jnp.zeros((1, 32, 32, 3))
    )['params']
    tree = executor.put(
      jax.tree.map(lambda x: np.ones((WORKERS, *x.shape), np.float32), shapes)
    )
    n = sum(x.size for x in jax.tree.leaves(shapes))
    vector = executor.put(np.ones((WORKERS, n), np.float32))
    call = lambda f, x: lambda run=executor.run(f): run(x)
    show(
      f'{name}, n={n}',
      median_seconds(
        {
          'raw': call(raw, vector),
          'leaves': call(raw, tree),
          'swap': call(lambda x: collectives.swap(x, SOURCE)[0], vector),
          'packed': call(gossip, tree),
        },
        15,
      ),
    )


if __name__ == '__main__':
  main()
