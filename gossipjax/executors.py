"""One program per worker, and three ways to run it.

Positional arguments have the workers on axis 0; keyword arguments are shared.
Of several processes each puts in and takes out the rows of its own workers.
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
  """Attributes:
  name: how the workers run.
  run: lifts a worker's program to all workers; `donate` are the positional
    arguments whose memory it may reuse.
  put: places a tree whose axis 0 are the workers of this process.
  mine: which of all the workers these are.
  """

  name: str
  run: Callable[..., Program]
  put: Callable[[Any], Any]
  mine: slice = slice(None)


MOST_DEVICES = 64  # Emulated; each costs threads.


def emulate(num_devices: int) -> None:
  """Splits the CPU into devices; only before JAX's backend has started.

  Every device of a collective waits in a thread of its own, so a thread pool
  of the size of the machine (the default) can deadlock.
  """
  num_devices = max(1, min(num_devices, MOST_DEVICES))
  threads = max(int(os.environ.get('NPROC') or 0), 32, 4 * num_devices)
  os.environ['NPROC'] = str(threads)
  jax.config.update('jax_num_cpu_devices', num_devices)


def on_one_device(program: Program, donate: tuple[int, ...] = ()) -> Program:
  """Runs the workers as a batch."""

  def everyone(*args, **shared):
    one = lambda *args: program(*args, **shared)
    return jax.vmap(one, axis_name=WORKERS)(*args)

  return jax.jit(everyone, donate_argnums=donate)


def on_many_devices(
  program: Program, mesh: jax.sharding.Mesh, donate: tuple[int, ...] = ()
) -> Program:
  """Runs every worker on its own device of the mesh."""

  def everyone(*args, **shared):

    def block(args, shared):  # shard_map keeps axis 0, with size one.
      out = program(*jax.tree.map(lambda x: x[0], args), **shared)
      return jax.tree.map(lambda x: x[None], out)

    # Nothing is claimed to be replicated, so there is no claim to check.
    return jax.shard_map(
      block,
      mesh=mesh,
      in_specs=(jax.P(WORKERS), jax.P()),
      out_specs=jax.P(WORKERS),
      check_vma=False,
    )(args, shared)

  return jax.jit(everyone, donate_argnums=donate)


def by_pmap(
  program: Program, devices: list[jax.Device], donate: tuple[int, ...] = ()
) -> Program:
  """Runs every worker on its own device through the older `jax.pmap`."""

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
  """How to run `num_workers`: 'vmap', 'shard_map', 'pmap', or 'auto'.

  'auto' takes a device per worker if there are enough, else one for all.
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
      f'executor={name} needs a device per worker: workers='
      f'{num_workers}, devices={jax.device_count()}; executor=vmap '
      'runs any number on one.'
    )
  devices = jax.devices()[:num_workers]
  mesh = _mesh(devices)
  placed = jax.NamedSharding(mesh, jax.P(WORKERS))
  put = lambda tree: jax.device_put(tree, placed)
  if name == 'pmap':
    return Executor(name, lambda p, donate=(): by_pmap(p, devices, donate), put)
  return Executor(
    name, lambda p, donate=(): on_many_devices(p, mesh, donate), put
  )


def _mesh(devices: list[jax.Device]) -> jax.sharding.Mesh:
  return jax.make_mesh(
    (len(devices),),
    (WORKERS,),
    devices=devices,
    axis_types=(jax.sharding.AxisType.Auto,),
  )


def _over_processes(num_workers: int, name: str) -> Executor:
  """A worker on every device of every process."""
  if name not in ('auto', 'shard_map'):
    raise UserError(
      f'executor={name} runs in one process; shard_map runs in '
      f'{jax.process_count()}.'
    )
  if num_workers != jax.device_count():
    raise UserError(
      f'workers={num_workers}, but {jax.process_count()} processes '
      f'have {jax.device_count()} devices; it takes one for each.'
    )
  # In the order of the processes, so that each has a run of the workers.
  devices = sorted(jax.devices(), key=lambda d: (d.process_index, d.id))
  mesh = _mesh(devices)
  placed = jax.NamedSharding(mesh, jax.P(WORKERS))
  put = lambda tree: jax.tree.map(
    lambda x: jax.make_array_from_process_local_data(placed, x), tree
  )
  here = [
    i for i, d in enumerate(devices) if d.process_index == jax.process_index()
  ]
  return Executor(
    'shard_map',
    lambda p, donate=(): on_many_devices(p, mesh, donate),
    put,
    slice(here[0], here[-1] + 1),
  )


def looks(program: Any, *like: Any) -> bool:
  """Whether what a jitted program returns depends on its arguments' values.

  Args:
    program: the compiler drops those of its arguments that it does not need.
    like: arguments, or their shapes and dtypes.
  """
  facts = program.lower(*like).compile().memory_analysis()
  return facts.argument_size_in_bytes > 0


def rows(tree: Any) -> Any:
  """The rows of this process's workers, on the host."""
  if jax.process_count() == 1:
    return jax.device_get(tree)

  def of_array(x):
    shards = sorted(x.addressable_shards, key=lambda s: s.index[0].start or 0)
    return np.concatenate([s.data for s in shards])

  return jax.tree.map(of_array, tree)


def gather(mine: Any) -> Any:
  """All workers' rows, in every process, from those of each: host arrays."""
  if jax.process_count() == 1:
    return mine
  return multihost_utils.process_allgather(mine, tiled=True)
