"""What a strategy's communication is: the bill of each step, for any size."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gossipjax import executors
from gossipjax.aggregator import Strategy, Tree
from gossipjax.audit import traced
from gossipjax.traffic import Traffic
from gossipjax.worker import make_worker

_SMALL = 2**16


class Bill(NamedTuple):
  """Attributes:
  sent: leaves [workers, steps], int64 or float64.
  exact: whether it depends on shapes alone; else it was measured under
    random gradients of _SMALL entries and scaled.
  """

  sent: Traffic
  exact: bool


def cycle(settings: Mapping[str, Any]) -> int:
  """Steps after which a strategy's bills repeat, or a fair sample of them."""
  return max(16, settings.get('period') or 1)


def of(strategy: Strategy, params: Tree, workers: int, steps: int) -> Bill:
  """The bills of the first `steps`.

  Args:
    strategy: of the workers; between its slots is a step of SGD.
    params: of one worker; only shapes and dtypes matter.
    workers: how many.
    steps: how many.
  """
  init, update = make_worker(strategy, optax.sgd(0.1))
  worker = jax.eval_shape(init, params)
  if not _looks_at(update, worker, params, workers):
    nothing = lambda tree: jax.tree.map(
      lambda x: jnp.zeros(x.shape, x.dtype), tree
    )
    bill = executors.on_one_device(
      lambda _, t: update(  # Zeros that never exist.
        nothing(worker), nothing(params), t
      )[1]
    )
    everyone = np.zeros(workers)
    return Bill(
      _stacked(bill(everyone, t=jnp.int32(t)) for t in range(steps)), True
    )
  small = jax.ShapeDtypeStruct((_SMALL,), jnp.float32)
  sent = _stacked(_under_noise(init, update, small, workers, steps))
  ratio = sum(x.size for x in jax.tree.leaves(params)) / _SMALL
  scaled = {
    name: np.asarray(getattr(sent, name)) * ratio
    for name in ('bytes', 'received', 'path_bytes')
  }
  return Bill(
    Traffic(messages=sent.messages, rounds=sent.rounds, **scaled), False
  )


def _stacked(bills: Iterable[Traffic]) -> Traffic:
  return jax.tree.map(
    lambda *each: np.stack(each, axis=1), *map(jax.device_get, bills)
  )


def _looks_at(update, worker: Tree, params: Tree, workers: int) -> bool:
  """Whether the compiler keeps arguments of a program that returns bills."""
  like = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct((workers, *x.shape), x.dtype),
    (worker, params),
  )
  bill = executors.on_one_device(
    lambda worker, grads: update(worker, grads, jnp.int32(0))[1]
  )
  return traced.depends_on_values(bill, *like)


def _under_noise(
  init, update, params: jax.ShapeDtypeStruct, workers: int, steps: int
) -> Iterator[Traffic]:
  """Bills under random gradients, another for every worker and step."""

  noise = lambda key: jax.random.normal(key, params.shape)

  @executors.on_one_device
  def step(worker, key, t):
    return update(worker, noise(jax.random.fold_in(key, t)), t)

  keys = jax.random.split(jax.random.key(1), workers)
  same = jnp.broadcast_to(keys[:1], (workers,))
  worker = executors.on_one_device(lambda key: init(noise(key)))(same)
  for t in range(steps):
    worker, sent = step(worker, keys, t=jnp.int32(t))
    yield sent
