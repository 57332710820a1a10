"""What a config says of the devices of a worker."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from ml_collections import ConfigDict

from gossipjax import network
from gossipjax.config import resolve
from gossipjax.devices import inner_devices
from gossipjax.devices.inner_devices import KINDS, Inner
from gossipjax.errors import UserError, nearest
from gossipjax.tasks import checks
from gossipjax.tasks.task import Task
from gossipjax.transforms import shards


def devices(config: Mapping[str, Any]) -> int:
  """Devices of each worker of a config."""
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
  config: ConfigDict, task: Task, optimizer: optax.GradientTransformation
) -> Inner:
  """What the devices of a worker do among themselves.

  Raises:
    UserError: parameters are sharded, and the optimizer needs whole tensors;
      or see checks.check.
  """
  number, kind = devices(config), config.get('inner', '')
  if number == 1:
    return inner_devices.ALONE
  checks.check(task, config.batch_size)
  if kind and not _elementwise(optimizer):
    raise UserError(
      f'config.inner={kind}: optimizer.name={config.optimizer.name} needs '
      "whole tensors, and each device has a shard; set config.inner='' or take "
      'an optimizer that treats each entry by itself, such as sgd or adamw.'
    )
  params, _ = jax.eval_shape(task.begin, jax.random.key(0))
  return inner_devices.inner(number, kind, params)


def _elementwise(optimizer: optax.GradientTransformation) -> bool:
  """Whether an optimizer does to shards what it does to whole tensors."""
  random = np.random.default_rng(0)
  # Some treat matrices from 128 rows and columns on in another way.
  params, *grads = jnp.float32(random.standard_normal((3, 256, 128)))

  def updates(params, grads) -> Any:
    state, found = optimizer.init(params), []
    for grad in grads:
      update, state = optimizer.update(grad, state, params)
      found.append(update)
    return found

  whole = jax.jit(updates)(params, grads)
  each = jax.vmap(updates)(shards.cut(params, 2), shards.cut(grads, 2))
  return all(
    np.allclose(a, b, rtol=1e-4, atol=1e-7)
    for a, b in zip(whole, shards.joined(each, whole), strict=True)
  )
