"""What an audit compiles and runs: one update of all workers on a mesh."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import executors
from gossipjax.aggregator import Strategy, Tree
from gossipjax.audit import hlo
from gossipjax.audit.control_paths import Paths, control_paths
from gossipjax.errors import UserError
from gossipjax.local_step import Worker, make_worker, probe

_LARGE = 1e3  # Gradients over parameters; they make every trigger fire.
_MOST = 32  # Entries along a dimension, where the shape does not matter.
# The same collectives as with all optimizations, in a third of the time.
_COMPILER_OPTIONS = {
  'xla_backend_optimization_level': 0,
  'xla_llvm_disable_expensive_passes': True,
}


class Harness(NamedTuple):
  """All workers of a strategy; leaves are [workers, ...].

  Attributes:
    run: lifts a worker's program to all workers, as `executors.Executor.run`.
    update: of one worker, as `worker.make_worker` returns it.
    worker: states to start from.
    large: gradients so large that every worker communicates.
    zero: gradients of zero.
  """

  run: Callable[..., Callable[..., Any]]
  update: Callable[..., Any]
  worker: Worker
  large: Tree
  zero: Tree


def make_harness(
  strategy: Strategy, params: Tree, workers: int, state: Tree = ()
) -> Harness:
  """All slots of a strategy around an optimizer, one device per worker.

  Args:
    strategy: of the workers.
    params, state: of one worker; only shapes and dtypes matter.
    workers: how many.

  Raises:
    UserError: fewer than two workers, or fewer devices than workers.
  """
  if not 2 <= workers <= jax.device_count():
    raise UserError(
      'audit needs two workers or more and a device for each: '
      f'workers={workers}, devices={jax.device_count()}; with '
      'JAX_PLATFORMS=cpu there are enough.'
    )
  executor = executors.executor(workers, 'shard_map')
  init, update = make_worker(strategy, probe(strategy, 1.0))
  leaves, form = jax.tree.flatten(params)

  def noise(seed, scale):  # One draw for all leaves compiles faster.
    ends = np.cumsum([x.size for x in leaves])
    flat = scale * jax.random.normal(jax.random.key(seed), ends[-1:])
    return form.unflatten(
      [
        part.reshape(x.shape).astype(x.dtype)
        for part, x in zip(jnp.split(flat, ends[:-1]), leaves, strict=True)
      ]
    )

  draw, seeds = executor.run(noise), np.arange(workers)
  mine = draw(executor.put(seeds), scale=1.0)
  large = draw(executor.put(seeds + workers), scale=_LARGE)
  still = jax.tree.map(lambda x: np.zeros((workers, *x.shape), x.dtype), state)
  return Harness(
    executor.run,
    update,
    executor.run(init)(mine, executor.put(still)),
    large,
    jax.tree.map(jnp.zeros_like, large),
  )


def update_at(harness: Harness, step: int) -> Callable[..., Any]:
  """The update of one worker with the step as a constant of the program."""
  return lambda worker, grads, *active: harness.update(
    worker, grads, jnp.int32(step), True, *active
  )


def compiled(
  harness: Harness, program: Callable[..., Any], *args: Any, **shared: Any
) -> tuple[Any, Paths]:
  """Compiles a worker's program for all workers; also returns its control
  paths."""
  lowered = harness.run(program).lower(harness.worker, *args, **shared)
  on_cpu = jax.default_backend() == 'cpu'
  ready = lowered.compile(_COMPILER_OPTIONS if on_cpu else None)
  return ready, control_paths(
    hlo.parse(ready.as_text()), hlo.parse(lowered.as_text(dialect='hlo'))
  )


def shrunk(params: Tree) -> Tree:
  """Shapes of the same tree with at most 32 entries along a dimension."""
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct([min(d, _MOST) for d in x.shape], x.dtype),
    params,
  )
