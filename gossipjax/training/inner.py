"""What a config says about the devices of a worker."""

import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from ml_collections import ConfigDict

from gossipjax import network
from gossipjax.aggregator import Tree
from gossipjax.config import resolve
from gossipjax.devices import inner_devices
from gossipjax.devices.inner_devices import KINDS, Inner
from gossipjax.errors import UserError, as_user_error, nearest
from gossipjax.tasks import checks
from gossipjax.tasks.task import Task
from gossipjax.training import optimizer
from gossipjax.transforms import shards


def devices(config: Mapping[str, Any]) -> int:
  """The number of devices of each worker of a config."""
  return max(1, config.get('devices_per_worker', 0))


def check(config: ConfigDict) -> None:
  """Checks the keys about the devices of a worker.

  Raises:
    UserError: they do not fit each other, or the rest of the config.
  """
  number, kind = devices(config), config.get('inner', '')
  if kind not in KINDS:
    raise UserError(f'config.inner={kind} is unknown{nearest(kind, KINDS[1:])}')
  for key in ('inner', 'inner_link'):
    if number == 1 and config.get(key):
      raise UserError(
        f'config.{key}={config[key]} needs workers of several devices; set '
        'config.devices_per_worker to 2 or more.'
      )
  if config.batch_size % number:
    raise UserError(
      f'config.devices_per_worker={number} has to divide '
      f'config.batch_size={config.batch_size}: each device takes an equal part.'
    )
  link(config)  # Refuses an unknown one before anything is loaded.
  if number > 1 and config.get('cluster'):
    raise UserError(
      'In virtual time a worker is one device; set config.cluster={} or '
      'config.devices_per_worker=0.'
    )


def link(config: ConfigDict) -> network.Link | None:
  """The link of each device to the others of its worker, if there are any."""
  if devices(config) == 1:
    return None
  choice = config.get('inner_link') or network.INNER
  return next(iter(resolve.links(choice, 'inner_link').values()))


def make(
  config: ConfigDict,
  task: Task,
  given: optax.GradientTransformation | None = None,
) -> Inner:
  """What the devices of a worker do among themselves.

  Args:
    config: of one run.
    task: whose parameters may be sharded.
    given: the optimizer; None: that of the config.

  Raises:
    UserError: parameters are sharded, and the optimizer needs whole tensors;
      or see checks.check.
  """
  number, kind = devices(config), config.get('inner', '')
  if number == 1:
    return inner_devices.ALONE
  checks.check(task, config.batch_size)
  params, _ = jax.eval_shape(task.begin, jax.random.key(0))
  if kind:
    label = f'optimizer.name={config.optimizer.name}'
    label = f'config.inner={kind}: {"the optimizer" if given else label}'
    tx = given or _with_unit_rate(config.optimizer)
    with as_user_error(label):
      elementwise = _elementwise(tx, params)
    if not elementwise:
      raise UserError(
        f'{label} needs whole tensors, and each device has a shard; set '
        "config.inner='' or take an optimizer that treats each entry by "
        'itself, such as sgd or adamw.'
      )
  return inner_devices.inner(number, kind, params)


def _with_unit_rate(config: Mapping[str, Any]) -> optax.GradientTransformation:
  """The optimizer of a config, at a rate that is 1 from the first step on.

  At small rates, as in a warm-up, optimizers that estimate distances (prodigy)
  show only after many steps that they need whole tensors.
  """
  of_rate = inspect.signature(optimizer.schedule).parameters
  kwargs = {key: value for key, value in config.items() if key not in of_rate}
  return optimizer.make(kwargs | {'learning_rate': 1.0}, PROBES)


PROBES = 32


def _elementwise(tx: optax.GradientTransformation, like: Tree) -> bool:
  """Whether an optimizer updates shards as it updates whole tensors.

  False if all of its updates are zero, as these show nothing.

  Args:
    tx: the optimizer, which may treat the leaves of a model differently.
    like: the model's parameters, whose structure and axes the probe has.
  """
  random = np.random.default_rng(0)
  start, mean = (_tensors(like, random, 1.0) for _ in range(2))

  @jax.jit
  def step(params, state, grad) -> Any:
    update, state = tx.update(grad, state, params)
    return optax.apply_updates(params, update), state, update

  step_shards = jax.jit(jax.vmap(step))
  whole = start, jax.jit(tx.init)(start)
  by_shard = (parts := shards.cut(start, 2)), jax.jit(jax.vmap(tx.init))(parts)
  has_updates = False
  # Small gradients and large ones, since some are clipped; a common mean, along
  # which distances grow.
  for size in np.geomspace(1e-3, 1e6, PROBES):
    noise = _tensors(like, random, size)
    grad = jax.tree.map(lambda x, m, size=size: x + size * m, noise, mean)
    *whole, update = step(*whole, grad)
    *by_shard, pieces = step_shards(*by_shard, shards.cut(grad, 2))
    same = jax.tree.map(_close, update, shards.joined(pieces, update))
    if not all(jax.tree.leaves(same)):
      return False
    has_updates |= any(np.any(x) for x in jax.tree.leaves(update))
  return has_updates


def _tensors(like: Tree, random: np.random.Generator, size: float) -> Tree:
  """Random tensors with as many axes as those of a model. Their rows have
  different sizes, so that shards differ."""
  # Some treat matrices of 128 or more rows and columns differently.
  matrix = random.standard_normal((256, 128)) * random.lognormal(size=(256, 1))

  def tensor(x):
    rows = matrix.reshape(256, 128, *[1] * max(0, x.ndim - 2))
    for _ in range(2 - x.ndim):
      rows = rows[..., 0]
    return jnp.asarray(size * rows, jnp.float32)

  return jax.tree.map(tensor, like)


def _close(update: Any, from_shards: Any) -> bool:
  largest = np.abs(update).max()
  return bool(np.isfinite(largest)) and np.allclose(
    update, from_shards, rtol=1e-4, atol=1e-6 * largest
  )
