"""The traffic of each step of a strategy, for parameters of any size.

No training is needed: traffic that depends on shapes alone is computed without
the parameters, other traffic is measured under random gradients.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gossipjax import executors
from gossipjax.advice import periods
from gossipjax.aggregator import Strategy, Tree
from gossipjax.collectives import WORKERS
from gossipjax.config import resolve
from gossipjax.local_step import make_worker, probe
from gossipjax.traffic import Traffic
from gossipjax.training import traffic_by_shapes

SAMPLE = jax.ShapeDtypeStruct((2**16,), jnp.float32)
Numbers = Sequence[int] | np.ndarray
SIZES = ('bytes', 'received', 'path_bytes', 'local', 'local_path_bytes')
COUNTS = ('messages', 'rounds', 'local_rounds')


class StepTraffic(NamedTuple):
  """The traffic of some steps.

  Attributes:
    sent: leaves [workers, steps], int64; float64 where scaled.
    exact: whether it depends on shapes alone; otherwise it was measured under
      random gradients.
    shares: f64[steps], the fraction of a training that each step represents;
      their sum is 1.
  """

  sent: Traffic
  exact: bool
  shares: np.ndarray


def of_cycle(
  settings: Mapping[str, Any],
  params: Tree,
  workers: int,
  sample: Tree | None = SAMPLE,
  training: int | None = None,
  seed: int = 0,
  optimizer: optax.GradientTransformation | None = None,
  rate: optax.Schedule | None = None,
) -> tuple[np.ndarray, StepTraffic]:
  """Returns the steps that represent a training, and their traffic.

  Args:
    settings: `config.strategy`.
    params, workers, sample, optimizer: see `per_step`.
    seed: of the run.
    training: steps of the training. None: without one-time steps, see
      `periods.beginning`.
    rate: see `resolve.strategy`.
  """
  steps, shares = periods.sample(settings, training)
  strategy = resolve.strategy(settings, rate, seed)
  found = per_step(strategy, params, workers, steps, sample, optimizer)
  counted = shares > 0
  sent = jax.tree.map(lambda x: x[:, counted], found.sent)
  return steps[counted], found._replace(sent=sent, shares=shares[counted])


def per_step(
  strategy: Strategy,
  params: Tree,
  workers: int,
  steps: Numbers,
  sample: Tree | None = SAMPLE,
  optimizer: optax.GradientTransformation | None = None,
) -> StepTraffic:
  """Returns the traffic of some steps, which have equal shares.

  Args:
    strategy: of the workers; between its aggregators runs a step of SGD, or of
      `optimizer` if the strategy exchanges moments.
    params: of one worker; only shapes and dtypes matter.
    workers: number of workers.
    steps: numbers of the steps, from 0 on, in ascending order.
    sample: shapes for which traffic that depends on gradients is measured; its
      bytes are then scaled to the size of `params`, its messages and rounds to
      their number of buckets. None: `params` themselves.
    optimizer: the one whose moments are exchanged; None: Adam.
  """
  local = optimizer if strategy.moments else None
  init, update = make_worker(strategy, local or probe(strategy, 0.1))
  worker = _of_one(init, params, workers)
  shares = np.full(len(steps), 1 / len(steps))
  traffic = traffic_by_shapes.static_traffic(
    update, worker, params, workers, steps
  )
  if traffic is not None:
    return StepTraffic(_stacked(traffic), True, shares)
  if sample is None:
    traffic = _under_random_gradients(init, update, params, workers, steps)
    return StepTraffic(_stacked(traffic), False, shares)
  sent = _stacked(_under_random_gradients(init, update, sample, workers, steps))
  ratio = _entries(params) / _entries(sample)
  scaled: dict[str, Any] = {
    name: np.asarray(getattr(sent, name)) * ratio for name in SIZES
  }
  if parts := strategy.gradients.parts:
    more = len(parts.of(params)) // len(parts.of(sample))
    scaled |= {name: np.asarray(getattr(sent, name)) * more for name in COUNTS}
  return StepTraffic(dataclasses.replace(sent, **scaled), False, shares)


def _of_one(init, params: Tree, workers: int) -> Tree:
  """Returns the shapes of the state of one worker out of `workers`."""
  init_all = jax.vmap(
    lambda _, params: init(params), axis_name=WORKERS, in_axes=(0, None)
  )
  shapes = jax.eval_shape(init_all, jnp.zeros(workers), params)
  one = lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype)
  return jax.tree.map(one, shapes)


def _entries(shapes: Tree) -> int:
  return sum(x.size for x in jax.tree.leaves(shapes))


def _stacked(steps: Iterable[Traffic]) -> Traffic:
  return jax.tree.map(
    lambda *each: np.stack(each, axis=1), *map(jax.device_get, steps)
  )


def _under_random_gradients(
  init, update, shapes: Tree, workers: int, steps: Numbers
) -> Iterator[Traffic]:
  """Yields the traffic under Gaussian gradients, new by worker and step."""

  def noise(key):
    keys = iter(jax.random.split(key, len(jax.tree.leaves(shapes))))
    return jax.tree.map(
      lambda x: jax.random.normal(next(keys), x.shape), shapes
    )

  @executors.on_one_device
  def step(worker, key, t):
    return update(worker, noise(jax.random.fold_in(key, t)), t)

  keys = jax.random.split(jax.random.key(1), workers)
  same_keys = jnp.broadcast_to(keys[:1], (workers,))
  worker = executors.on_one_device(lambda key: init(noise(key)))(same_keys)
  for t in steps:
    worker, sent = step(worker, keys, t=jnp.int32(t))
    yield sent
