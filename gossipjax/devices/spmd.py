"""Runs the program of one worker, or of one of its devices, for all workers.

Positional arguments have the workers on axis 0 and, if a worker has several
devices, the devices on axis 1; keyword arguments are shared.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax

from gossipjax.collectives import WORKERS

Program = Callable[..., Any]


def on_one_device(
  program: Program,
  donate: tuple[int, ...] = (),
  *,
  axes: tuple[str, ...] = (WORKERS,),
) -> Program:
  """Runs all workers on one device, as a batch under `jax.vmap`."""

  def everyone(*args, **shared):
    run = lambda *args: program(*args, **shared)
    for axis in reversed(axes):
      run = jax.vmap(run, axis_name=axis)
    return run(*args)

  return jax.jit(everyone, donate_argnums=donate)


def on_many_devices(
  program: Program, donate: tuple[int, ...] = (), *, mesh: jax.sharding.Mesh
) -> Program:
  """Runs each worker on its own device of the mesh, under `jax.shard_map`.

  All axes of the mesh are manual: if the axis of a worker's devices were left
  to the compiler, it would gather what the worker sends on each of them.
  """
  rows = jax.P(*mesh.axis_names)
  first, new_axes = (0,) * len(rows), (None,) * len(rows)

  def everyone(*args, **shared):

    def block(args, shared):  # shard_map keeps the axes, with size one.
      out = program(*jax.tree.map(lambda x: x[first], args), **shared)
      return jax.tree.map(lambda x: x[new_axes], out)

    # No output is declared replicated, so check_vma has nothing to check.
    return jax.shard_map(
      block,
      mesh=mesh,
      in_specs=(rows, jax.P()),
      out_specs=rows,
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
