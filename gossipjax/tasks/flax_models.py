"""Tasks from models of Flax as they are, Linen or NNX."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from flax import linen, nnx

from gossipjax.data.examples import taken
from gossipjax.data.sources import Source
from gossipjax.errors import UserError, blaming
from gossipjax.tasks.metrics import Score
from gossipjax.tasks.task import Task

Tree = Any
Loss = Callable[[Any, Any], jax.Array]  # (outputs, targets) -> f32[].
Scores = Callable[[Any, Any], Mapping[str, Score]]
# Arguments that switch a Linen model to training, and their value then.
_SWITCHES = {
  'train': True,
  'training': True,
  'is_training': True,
  'deterministic': False,
  'use_running_average': False,
}


def task_from_linen(
  model: linen.Module,
  loss: Loss,
  train: tuple[Any, Any] | Source,
  test: tuple[Any, Any] | Source,
  scores: Scores | None = None,
  **rest: Any,
) -> Task:
  """The task that a Linen model learns.

  An argument of the model named train, training, is_training, deterministic or
  use_running_average says whether it trains. Collections besides parameters,
  such as batch statistics, become the state; dropout gets keys.

  Args:
    model: called with a batch of inputs.
    loss: (outputs, targets) -> f32[], the mean over a batch.
    train: inputs and targets, [examples, ...] each, or a source of such pairs.
    test: likewise, held out.
    scores: (outputs, targets) -> scores by name; None is the loss alone.
    **rest: further fields of `Task`.
  """
  _check(model, 'task_from_linen', linen.Module, 'Net()')
  known = inspect.signature(type(model).__call__).parameters
  training = {k: v for k, v in _SWITCHES.items() if k in known}
  testing = {k: not v for k, v in training.items()}

  def init(key):
    x = _one_input(train)
    return _parted(model.init({'params': key, 'dropout': key}, x, **testing))

  def forward(params, state, x, key):
    variables = {'params': params, **state}
    # Streams of other names than dropout take the one of parameters.
    rngs = {'dropout': key, 'params': jax.random.fold_in(key, 1)}
    return model.apply(variables, x, rngs=rngs, mutable=[*state], **training)

  def judge(params, state, x):
    return model.apply({'params': params, **state}, x, **testing)

  stateful = bool(jax.eval_shape(init, jax.random.key(0))[1])
  return _task(
    jax.jit(init), forward, judge, loss, scores, train, test, stateful, rest
  )


def _one_input(train: Any) -> Tree:
  """The inputs of the first example, a batch of one."""
  train = taken(train, 'train')
  if isinstance(train, Source):
    return jax.tree.map(lambda x: np.asarray(x)[None], train[0][0])
  return jax.tree.map(lambda x: np.asarray(x)[:1], train[0])


def _parted(variables: Mapping[str, Any]) -> tuple[Tree, dict[str, Tree]]:
  """Parameters, and all other collections."""
  others = {k: v for k, v in variables.items() if k != 'params'}
  return variables.get('params', {}), others


def task_from_nnx(
  make: Callable[[nnx.Rngs], nnx.Module],
  loss: Loss,
  train: tuple[Any, Any] | Source,
  test: tuple[Any, Any] | Source,
  scores: Scores | None = None,
  **rest: Any,
) -> Task:
  """The task that an NNX model learns.

  What is no `nnx.Param`, such as batch statistics, becomes the state; streams
  of random numbers get keys that differ by worker and step.

  Args:
    make: random numbers -> the model, which is called with a batch of inputs;
      its class, if that takes nothing else.
    loss, train, test, scores, rest: as those of `task_from_linen`.
  """
  hint = 'its class, or lambda rngs: Net(rngs=rngs)'
  if isinstance(make, nnx.Module) or not callable(make):
    _check(make, 'task_from_nnx', type, hint)
  with blaming('task_from_nnx: the function that makes the model'):
    model = nnx.eval_shape(lambda: make(nnx.Rngs(0)))
  _check(model, 'task_from_nnx', nnx.Module, hint)
  kinds = (nnx.Param, nnx.RngState, ...)
  model.train()
  training, *forms = nnx.split(model, *kinds)
  model.eval()
  testing, *_ = nnx.split(model, *kinds)

  def init(key):
    _, params, _, state = nnx.split(make(nnx.Rngs(key)), *kinds)
    return _named(params), _named(state)

  def merged(graph, params, state, key):
    mine = _unnamed(forms[0], params), _unnamed(forms[2], state)
    return nnx.merge(graph, mine[0], _keyed(forms[1], key), mine[1])

  def forward(params, state, x, key):
    model = merged(training, params, state, key)
    outputs = model(x)
    return outputs, _named(nnx.split(model, *kinds)[3])

  def judge(params, state, x):
    return merged(testing, params, state, jax.random.key(0))(x)

  stateful = bool(jax.tree.leaves(forms[2]))
  return _task(init, forward, judge, loss, scores, train, test, stateful, rest)


def _check(given: Any, where: str, kind: type, hint: str) -> None:
  if not isinstance(given, kind):
    sort = 'the class' if isinstance(given, type) else 'an object of type'
    name = getattr(given, '__name__', type(given).__name__)
    raise UserError(f'{where}: the model is {sort} {name}; give {hint}.')


def _named(state: Any) -> dict[str, jax.Array]:
  """The arrays of an NNX state by their paths."""
  paths = jax.tree_util.tree_leaves_with_path(state)
  return {_words(path).removesuffix('.value'): x for path, x in paths}


def _words(path: Any) -> str:
  """'conv.kernel.value'."""
  return '.'.join(str(getattr(k, 'key', getattr(k, 'name', k))) for k in path)


def _unnamed(form: Any, named: dict[str, jax.Array]) -> Any:
  """The NNX state whose `_named` this is."""
  return jax.tree.unflatten(
    jax.tree.structure(form), [named[name] for name in _named(form)]
  )


def _keyed(form: Any, key: jax.Array) -> Any:
  """Streams of random numbers that begin with a key, each with its own."""
  leaves, structure = jax.tree.flatten(form)
  split = lambda key, shape: jax.random.split(key, shape) if shape else key
  fresh = [
    split(jax.random.fold_in(key, i), x.shape)
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    else jax.numpy.zeros(x.shape, x.dtype)
    for i, x in enumerate(leaves)
  ]
  return jax.tree.unflatten(structure, fresh)


def _task(init, forward, judge, loss, scores, train, test, stateful, rest):
  """The task of a model that maps (parameters, state, inputs) to outputs."""

  def stateful_loss(params, state, batch, key):
    outputs, after = forward(params, state, batch[0], key)
    return loss(outputs, batch[1]), after

  def score(params, state, batch):
    outputs = judge(params, state, batch[0])
    if scores is None:
      return {'loss': loss(outputs, batch[1])}
    return dict(scores(outputs, batch[1]))

  if stateful:
    return Task(init, stateful_loss, score, train, test, True, **rest)
  return Task(
    lambda key: init(key)[0],
    lambda params, batch, key: stateful_loss(params, {}, batch, key)[0],
    lambda params, batch: score(params, {}, batch),
    train,
    test,
    **rest,
  )
