"""Makes a task from an unchanged NNX model."""

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx

from gossipjax.data.sources import Source
from gossipjax.devices.repeated_arrays import is_key
from gossipjax.errors import as_user_error
from gossipjax.tasks.flax_models import (
  Loss,
  Scores,
  check,
  check_pairs,
  task_of,
)
from gossipjax.tasks.task import Task


def task_from_nnx(
  make: Callable[[nnx.Rngs], nnx.Module],
  loss: Loss,
  train: tuple[Any, Any] | Source,
  test: tuple[Any, Any] | Source,
  scores: Scores | None = None,
  **rest: Any,
) -> Task:
  """Makes the task that an NNX model learns.

  Variables other than `nnx.Param`, such as batch statistics, become the state;
  streams of random numbers get keys that differ by worker and step.

  Args:
    make: nnx.Rngs -> the model, which is called with a batch of inputs; may be
      the model's class, if that takes no other argument.
    loss, train, test, scores, rest: as those of `task_from_linen`.
  """
  model, kinds = _shapes(make), (nnx.Param, nnx.RngState, ...)
  check_pairs('task_from_nnx', train=train, test=test)
  model.train()
  training, *forms = nnx.split(model, *kinds)
  model.eval()
  testing, *_ = nnx.split(model, *kinds)

  def init(key):
    _, params, _, state = nnx.split(make(nnx.Rngs(key)), *kinds)
    return _named(params), _named(state)

  def merged(graph, params, state, key):
    parts = _unnamed(forms[0], params), _unnamed(forms[2], state)
    return nnx.merge(graph, parts[0], _keyed(forms[1], key), parts[1])

  def forward(params, state, x, key):
    model = merged(training, params, state, key)
    outputs = model(x)
    return outputs, _named(nnx.split(model, *kinds)[3])

  def judge(params, state, x):
    return as_model(params, state)(x)

  def as_model(params, state):
    return merged(testing, params, state, jax.random.key(0))

  rest.setdefault('as_model', as_model)
  stateful = bool(jax.tree.leaves(forms[2]))
  return task_of(
    init, forward, judge, loss, scores, train, test, stateful, rest
  )


def _shapes(make: Callable[[nnx.Rngs], nnx.Module]) -> nnx.Module:
  """The model with shapes in place of arrays."""
  hint = 'its class, or lambda rngs: Net(rngs=rngs)'
  if isinstance(make, nnx.Module) or not callable(make):
    check(make, 'task_from_nnx', type, hint)
  with as_user_error('task_from_nnx: the function that makes the model'):
    model = nnx.eval_shape(lambda: make(nnx.Rngs(0)))
  check(model, 'task_from_nnx', nnx.Module, hint)
  return model


def _named(state: Any) -> dict[str, jax.Array]:
  """The arrays of an NNX state by their paths."""
  paths = jax.tree_util.tree_leaves_with_path(state)
  return {_path_name(path).removesuffix('.value'): x for path, x in paths}


def _path_name(path: Any) -> str:
  """'conv.kernel.value'."""
  return '.'.join(str(getattr(k, 'key', getattr(k, 'name', k))) for k in path)


def _unnamed(form: Any, named: dict[str, jax.Array]) -> Any:
  """Restores the NNX state of which `_named` gave these arrays."""
  return jax.tree.unflatten(
    jax.tree.structure(form), [named[name] for name in _named(form)]
  )


def _keyed(form: Any, key: jax.Array) -> Any:
  """Seeds streams of random numbers, each with a key derived from `key`."""
  leaves, structure = jax.tree.flatten(form)
  split = lambda key, shape: jax.random.split(key, shape) if shape else key
  fresh = [
    split(jax.random.fold_in(key, i), x.shape)
    if is_key(x)
    else jax.numpy.zeros(x.shape, x.dtype)
    for i, x in enumerate(leaves)
  ]
  return jax.tree.unflatten(structure, fresh)
