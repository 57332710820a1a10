"""Workers that each minimise a quadratic: small runs to compare."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gossipjax import collectives, executors
from gossipjax.aggregator import Strategy
from gossipjax.local_step import make_worker

SIZE = 24  # Parameters: a matrix of 4 x 5, and a vector of 4.


def start() -> np.ndarray:
  """The initial parameters of every worker, f64[SIZE]."""
  return np.random.default_rng(1).normal(size=SIZE)


def gradients(x: np.ndarray, step: int) -> np.ndarray:
  """Gradients of workers at x, [workers, SIZE]; each has its own minimum."""
  rng = np.random.default_rng(0)
  curvature, minimum = rng.uniform(0.2, 1, x.shape), rng.normal(size=x.shape)
  return curvature * (x - minimum) * (1 + 0.5 * np.sin(step))


def tree(x):
  """Turns [..., SIZE] into a tree."""
  return {
    'matrix': x[..., :20].reshape(*x.shape[:-1], 4, 5),
    'vector': x[..., 20:],
  }


def flat(tree) -> np.ndarray:
  """The inverse of `tree`."""
  matrix, vector = (np.asarray(tree[k]) for k in ('matrix', 'vector'))
  return np.concatenate([matrix.reshape(*vector.shape[:-1], 20), vector], -1)


def run(
  strategy: Strategy,
  optimizer: optax.GradientTransformation | None = None,
  workers: int = 4,
  steps: int = 12,
  executor: str = 'vmap',
  still: bool = False,
) -> Iterator[tuple]:
  """Yields per step: parameters f32[workers, SIZE], workers' states, traffic.

  Args:
    strategy: of the workers.
    optimizer: of each worker; None is SGD of rate 0.1.
    workers: how many.
    steps: how many.
    executor: vmap or shard_map.
    still: whether gradients depend on the parameters alone, not on the step.
  """
  init, update = make_worker(strategy, optimizer or optax.sgd(0.1))
  where = executors.executor(workers, executor)
  step_of = where.run(update)
  same = np.stack([start()] * workers).astype(np.float32)
  worker = where.put(jax.vmap(init, axis_name=collectives.WORKERS)(tree(same)))
  for step in range(steps):
    x = flat(jax.device_get(worker.params)).astype(np.float64)
    grads = where.put(
      tree(gradients(x, 0 if still else step).astype(np.float32))
    )
    worker, sent = step_of(worker, grads, step=jnp.int32(step))
    found = jax.device_get((worker, sent))
    yield flat(found[0].params), *found


def train(*args, **kwargs) -> list[np.ndarray]:
  """Parameters after each step of `run`."""
  return [x for x, _, _ in run(*args, **kwargs)]


def same(a, b) -> None:
  """Asserts that two runs are equal bit by bit."""
  for ours, theirs in zip(a, b, strict=True):
    np.testing.assert_array_equal(ours, theirs)


def close(a, b) -> None:
  """Asserts that two runs are equal up to rounding, in f32."""
  for ours, theirs in zip(a, b, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-6)
