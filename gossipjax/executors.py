"""Runs one program per worker: under vmap, shard_map or pmap.

Positional arguments have the workers on axis 0; keyword arguments are shared.
With several processes, each passes and receives the rows of its own workers. If
a worker has several devices, the program runs once on each of them, and
positional arguments have the devices of a worker on axis 1.
"""

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils

from gossipjax.collectives import INNER, WORKERS
from gossipjax.devices import worker_devices
from gossipjax.devices.repeated_arrays import repeated
from gossipjax.devices.spmd import (
  Program,
  by_pmap,
  on_many_devices,
  on_one_device,
)
from gossipjax.errors import UserError, nearest


def _same(tree: Any) -> Any:
  return tree


class Executor(NamedTuple):
  """How the workers run.

  Attributes:
    name: vmap, shard_map or pmap.
    run: `(program, donate=()) -> jitted program of all workers`; `donate` lists
      the positional arguments whose memory it may reuse.
    put: places a tree, leaves [workers of this process, ...], on the devices.
    local_workers: the slice of all workers that this process runs.
    devices: the number of devices of each worker.
    unreplicate: takes leaves [workers, devices, ...] that are equal on all
      devices of a worker; returns one copy per worker, [workers, ...].
  """

  name: str
  run: Callable[..., Program]
  put: Callable[[Any], Any]
  local_workers: slice = slice(None)
  devices: int = 1
  unreplicate: Callable[[Any], Any] = _same

  def put_replicated(self, tree: Any) -> Any:
    """Places leaves [workers, ...]; each device of a worker has a copy."""
    if self.devices == 1:
      return self.put(tree)
    copies = lambda x: repeated(x, self.devices, 1)
    return self.put(jax.tree.map(copies, tree))

  def put_split(self, tree: Any) -> Any:
    """Places leaves [workers, n, ...]; each device of a worker gets n / devices
    consecutive rows of the n."""
    if self.devices == 1:
      return self.put(tree)
    parts = lambda x: x.reshape(len(x), self.devices, -1, *x.shape[2:])
    return self.put(jax.tree.map(parts, tree))


MOST_DEVICES = 64  # Emulated; each costs threads.


def emulate(num_devices: int) -> None:
  """Emulates up to 64 devices on the CPU, before JAX's backend starts.

  Each device of a collective waits in a thread of its own. A thread pool with
  one thread per core, the default, could deadlock, so this sets more threads.

  Raises:
    UserError: the backend has started, with fewer devices.
  """
  num_devices = max(1, min(num_devices, MOST_DEVICES))
  threads = max(int(os.environ.get('NPROC') or 0), 32, 4 * num_devices)
  os.environ['NPROC'] = str(threads)
  try:
    jax.config.update('jax_num_cpu_devices', num_devices)
  except RuntimeError as error:
    if jax.device_count() < num_devices:
      raise UserError(
        'JAX has computed something before its devices were set: a module of '
        'yours, or the config, does so while it is imported; move that into a '
        'function.'
      ) from error


NAMES = ('auto', 'vmap', 'shard_map', 'pmap')


def executor(
  num_workers: int, name: str = 'auto', devices: int = 1
) -> Executor:
  """The executor of that name.

  Args:
    num_workers: how many workers run.
    name: 'vmap', 'shard_map', 'pmap', or 'auto': a device per worker if there
      are enough devices, else one device for all workers.
    devices: per worker; several need enough devices for all, except on 'vmap'.

  Raises:
    UserError: the name is unknown, or there are too few devices or workers.
  """
  if name not in NAMES:
    raise UserError(f'executor={name} is unknown{nearest(name, NAMES)}')
  if num_workers < 1:
    raise UserError(f'workers must be at least 1, got {num_workers}.')
  if jax.process_count() > 1:
    device_list, local_workers = worker_devices.over_processes(
      num_workers, name, devices
    )
    return _on_devices('shard_map', device_list, local_workers, devices)
  enough = jax.device_count() >= num_workers * devices
  if name == 'auto':
    name = 'shard_map' if enough or devices > 1 else 'vmap'
  if name == 'vmap':
    run = functools.partial(on_one_device, axes=_axes(devices))
    unreplicate = _same if devices == 1 else jax.jit(_first)
    return Executor(
      name, run, jax.device_put, devices=devices, unreplicate=unreplicate
    )
  device_list = worker_devices.of_process(num_workers, name, devices)
  return _on_devices(name, device_list, per_worker=devices)


def _first(tree: Any) -> Any:
  """Returns the copy of the first device of each worker."""
  return jax.tree.map(lambda x: x[:, 0], tree)


def _axes(devices: int) -> tuple[str, ...]:
  return (WORKERS,) if devices == 1 else (WORKERS, INNER)


def _on_devices(
  name: str,
  devices: list[jax.Device],
  local_workers: slice = slice(None),
  per_worker: int = 1,
) -> Executor:
  """The executor of workers with devices of their own: shard_map or pmap."""
  axes = _axes(per_worker)
  shape = (len(devices) // per_worker, per_worker)[: len(axes)]
  auto = (jax.sharding.AxisType.Auto,) * len(axes)
  mesh = jax.make_mesh(shape, axes, auto, devices=devices)
  sharding = jax.NamedSharding(mesh, jax.P(*axes))
  make_array = jax.make_array_from_process_local_data
  if jax.process_count() > 1:
    put = lambda tree: jax.tree.map(lambda x: make_array(sharding, x), tree)
  else:
    put = lambda tree: jax.device_put(tree, sharding)
  if name == 'pmap':
    run = functools.partial(by_pmap, devices=devices)
  else:
    run = functools.partial(on_many_devices, mesh=mesh)
  if per_worker == 1:
    return Executor(name, run, put, local_workers)
  of_workers = jax.NamedSharding(mesh, jax.P(WORKERS))
  unreplicate = jax.jit(_first, out_shardings=of_workers)
  return Executor(name, run, put, local_workers, per_worker, unreplicate)


def to_host(tree: Any) -> Any:
  """Copies the rows of this process's workers to the host, as NumPy arrays."""
  if jax.process_count() == 1:
    return jax.device_get(tree)

  def of_array(x):
    # Several devices may hold copies of the same rows; one copy is kept.
    shards = {
      tuple(part.start or 0 for part in s.index[:2]): s.data
      for s in x.addressable_shards
    }
    rows = np.concatenate([shards[index] for index in sorted(shards)])
    return rows.reshape(len({worker for worker, *_ in shards}), *x.shape[1:])

  return jax.tree.map(of_array, tree)


def gather(mine: Any) -> Any:
  """Joins the rows of all processes, on each of them, as NumPy arrays."""
  if jax.process_count() == 1:
    return mine
  return multihost_utils.process_allgather(mine, tiled=True)
