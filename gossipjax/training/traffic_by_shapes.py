"""The traffic of steps without computing the steps, if shapes determine it."""

from collections.abc import Callable, Iterable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from gossipjax import executors
from gossipjax.aggregator import Tree
from gossipjax.traffic import Traffic
from gossipjax.transforms import traced


def static_traffic(
  update: Callable,
  worker: Tree,
  gradient: Tree,
  workers: int,
  steps: Iterable[int],
) -> Iterator[Traffic] | None:
  """The traffic of some steps; None if it depends on values.

  Args:
    update: (worker, gradient, step) -> (worker, Traffic), of one worker.
    worker, gradient: its arguments; shapes and dtypes suffice.
    workers: how many.
    steps: their numbers.
  """
  shapes = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct((workers, *x.shape), x.dtype),
    (worker, gradient),
  )
  bill_at_0 = executors.on_one_device(
    lambda worker, gradient: update(worker, gradient, jnp.int32(0))[1]
  )
  if traced.depends_on_values(bill_at_0, *shapes):
    return None
  # A program of zeros, from which the compiler removes all parameters.
  zeros = lambda tree: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), tree)
  step = executors.on_one_device(
    lambda _, t: update(zeros(worker), zeros(gradient), t)[1]
  )
  return (step(np.zeros(workers), t=jnp.int32(t)) for t in steps)
