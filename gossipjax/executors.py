"""Runs one program per worker: under vmap, shard_map or pmap.

Positional arguments have the workers on axis 0; keyword arguments are shared.
Of several processes each passes and receives the rows of its own workers.
"""

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils

from gossipjax.collectives import WORKERS
from gossipjax.errors import UserError, nearest

Program = Callable[..., Any]


class Executor(NamedTuple):
  """How the workers run.

  Attributes:
    name: vmap, shard_map or pmap.
    run: `(program, donate=()) -> jitted program of all workers`; `donate` are
      the positional arguments whose memory it may reuse.
    put: places a tree, leaves [workers of this process, ...], on the devices.
    mine: the workers of this process among all.
  """

  name: str
  run: Callable[..., Program]
  put: Callable[[Any], Any]
  mine: slice = slice(None)


MOST_DEVICES = 64  # Emulated; each costs threads.


def emulate(num_devices: int) -> None:
  """Emulates up to 64 devices on the CPU, before JAX's backend starts.

  Each device of a collective waits in a thread of its own, so that a thread
  pool with a thread per core (the default) can deadlock.
  """
  num_devices = max(1, min(num_devices, MOST_DEVICES))
  threads = max(int(os.environ.get('NPROC') or 0), 32, 4 * num_devices)
  os.environ['NPROC'] = str(threads)
  jax.config.update('jax_num_cpu_devices', num_devices)


def on_one_device(program: Program, donate: tuple[int, ...] = ()) -> Program:
  """Runs all workers on one device, as a batch under `jax.vmap`."""

  def everyone(*args, **shared):
    one = lambda *args: program(*args, **shared)
    return jax.vmap(one, axis_name=WORKERS)(*args)

  return jax.jit(everyone, donate_argnums=donate)


def on_many_devices(
  program: Program, donate: tuple[int, ...] = (), *, mesh: jax.sharding.Mesh
) -> Program:
  """Runs each worker on its own device of the mesh, under `jax.shard_map`."""

  def everyone(*args, **shared):

    def block(args, shared):  # shard_map keeps axis 0, with size one.
      out = program(*jax.tree.map(lambda x: x[0], args), **shared)
      return jax.tree.map(lambda x: x[None], out)

    # No output is declared replicated, so check_vma has nothing to check.
    return jax.shard_map(
      block,
      mesh=mesh,
      in_specs=(jax.P(WORKERS), jax.P()),
      out_specs=jax.P(WORKERS),
      check_vma=False,
    )(args, shared)

  return jax.jit(everyone, donate_argnums=donate)


def by_pmap(
  program: Program, donate: tuple[int, ...] = (), *, devices: list[jax.Device]
) -> Program:
  """Runs each worker on its own device, under the older `jax.pmap`."""

  @functools.cache
  def mapped(num_args, names):

    def positional(*args):
      shared = dict(zip(names, args[num_args:], strict=True))
      return program(*args[:num_args], **shared)

    return jax.pmap(
      positional,
      axis_name=WORKERS,
      devices=devices,
      donate_argnums=donate,
      in_axes=(0,) * num_args + (None,) * len(names),
    )

  return lambda *args, **shared: mapped(len(args), tuple(shared))(
    *args, *shared.values()
  )


def executor(num_workers: int, name: str = 'auto') -> Executor:
  """The executor of that name.

  Args:
    num_workers: how many workers run.
    name: 'vmap', 'shard_map', 'pmap', or 'auto': a device per worker if there
      are enough devices, else one device for all workers.

  Raises:
    UserError: the name is unknown, or there are too few devices or workers.
  """
  names = ('auto', 'vmap', 'shard_map', 'pmap')
  if name not in names:
    raise UserError(f'executor={name} is unknown{nearest(name, names)}')
  if num_workers < 1:
    raise UserError(f'workers is at least 1, got {num_workers}.')
  if jax.process_count() > 1:
    return _over_processes(num_workers, name)
  enough = jax.device_count() >= num_workers
  if name == 'auto':
    name = 'shard_map' if enough else 'vmap'
  if name == 'vmap':
    return Executor(name, on_one_device, jax.device_put)
  if not enough:
    raise UserError(
      f'executor={name} needs a device per worker: workers={num_workers}, '
      f'devices={jax.device_count()}; executor=vmap runs any number on one.'
    )
  return _on_devices(name, jax.devices()[:num_workers])


def _on_devices(
  name: str, devices: list[jax.Device], mine: slice = slice(None)
) -> Executor:
  """The executor of a worker per device, under shard_map or pmap."""
  auto = (jax.sharding.AxisType.Auto,)
  mesh = jax.make_mesh((len(devices),), (WORKERS,), auto, devices=devices)
  placed = jax.NamedSharding(mesh, jax.P(WORKERS))
  place = jax.make_array_from_process_local_data
  if jax.process_count() > 1:
    put = lambda tree: jax.tree.map(lambda x: place(placed, x), tree)
  else:
    put = lambda tree: jax.device_put(tree, placed)
  if name == 'pmap':
    run = functools.partial(by_pmap, devices=devices)
  else:
    run = functools.partial(on_many_devices, mesh=mesh)
  return Executor(name, run, put, mine)


def _over_processes(num_workers: int, name: str) -> Executor:
  """The executor of several processes, with a worker on each device."""
  if name not in ('auto', 'shard_map'):
    raise UserError(
      f'executor={name} runs in one process; shard_map runs in '
      f'{jax.process_count()}.'
    )
  if num_workers != jax.device_count():
    raise UserError(
      f'workers={num_workers}, but {jax.process_count()} processes '
      f'have {jax.device_count()} devices; give as many workers as devices.'
    )
  # In the order of the processes, so that each has consecutive workers.
  devices = sorted(jax.devices(), key=lambda d: (d.process_index, d.id))
  owners = [d.process_index for d in devices]
  here = [i for i, owner in enumerate(owners) if owner == jax.process_index()]
  return _on_devices('shard_map', devices, slice(here[0], here[-1] + 1))


def rows(tree: Any) -> Any:
  """Copies the rows of this process's workers to the host, as NumPy arrays."""
  if jax.process_count() == 1:
    return jax.device_get(tree)

  def of_array(x):
    shards = sorted(x.addressable_shards, key=lambda s: s.index[0].start or 0)
    return np.concatenate([s.data for s in shards])

  return jax.tree.map(of_array, tree)


def gather(mine: Any) -> Any:
  """Joins each process's rows to those of all workers, as NumPy arrays."""
  if jax.process_count() == 1:
    return mine
  return multihost_utils.process_allgather(mine, tiled=True)
