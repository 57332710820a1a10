"""Workers on a mesh, with gradients at hand, to compile and run an update."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gossipjax import executors
from gossipjax.aggregator import Strategy, Tree
from gossipjax.audit import hlo
from gossipjax.audit.control_paths import Ways, ways
from gossipjax.errors import UserError
from gossipjax.worker import Worker, make_worker

_LOUD = 1e3  # Gradients, in sizes of the parameters, that no trigger ignores.
_LARGE = 32  # Dimensions, where the shape does not matter.
# The same HLO, so the same collectives, as slow code in a third of the time.
_IN_HASTE = {
  'xla_backend_optimization_level': 0,
  'xla_llvm_disable_expensive_passes': True,
}


class Stage(NamedTuple):
  """Leaves are [workers, ...]."""

  run: Callable[..., Callable[..., Any]]  # As of an `spmd.Executor`.
  update: Callable[..., Any]  # Of one worker.
  worker: Worker
  loud: Tree  # Gradients that make everyone talk.
  silent: Tree  # Gradients of zero.


def set_up(strategy: Strategy, params: Tree, workers: int) -> Stage:
  """Both slots of a strategy around a step of SGD, one device per worker.

  Args:
    strategy: of the workers.
    params: of one worker; only shapes and dtypes matter.
    workers: how many.
  """
  if not 2 <= workers <= jax.device_count():
    raise UserError(
      'audit needs two workers or more and a device for each: '
      f'workers={workers}, devices={jax.device_count()}; with '
      'JAX_PLATFORMS=cpu there are enough.'
    )
  executor = executors.executor(workers, 'shard_map')
  init, update = make_worker(strategy, optax.sgd(1.0))
  leaves, form = jax.tree.flatten(params)

  def noise(seed, scale):  # Drawn at once: a draw per leaf compiles for long.
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
  loud = draw(executor.put(seeds + workers), scale=_LOUD)
  return Stage(
    executor.run,
    update,
    executor.run(init)(mine),
    loud,
    jax.tree.map(jnp.zeros_like, loud),
  )


def at(stage: Stage, step: int) -> Callable[..., Any]:
  """The update of one worker at a step that the compiler knows."""
  return lambda worker, grads, *there: stage.update(
    worker, grads, jnp.int32(step), True, *there
  )


def compiled(
  stage: Stage, program: Callable[..., Any], *args: Any, **shared: Any
) -> tuple[Any, Ways]:
  """A program of one worker, ready to run for all, and what moves in it."""
  lowered = stage.run(program).lower(stage.worker, *args, **shared)
  ready = lowered.compile(_IN_HASTE if jax.default_backend() == 'cpu' else None)
  return ready, ways(
    hlo.parse(ready.as_text()), hlo.parse(lowered.as_text(dialect='hlo'))
  )


def shrunk(params: Tree) -> Tree:
  """The same tree, with no dimension so large that running it takes long."""
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct([min(d, _LARGE) for d in x.shape], x.dtype),
    params,
  )
