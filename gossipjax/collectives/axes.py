"""The mesh axes of the workers and of the devices of a worker."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.errors import UserError

WORKERS = 'workers'  # The mesh axis, unless `use_axis` says another.
INNER = 'inner'  # The axis of the devices of a worker, likewise.

Axis = str | tuple[str, ...]

_AXIS: contextvars.ContextVar[Axis] = contextvars.ContextVar(
  'axis', default=WORKERS
)
_INNER: contextvars.ContextVar[Axis | None] = contextvars.ContextVar(
  'inner', default=None
)


_IN_GROUPS: contextvars.ContextVar[bool] = contextvars.ContextVar(
  'in_groups', default=False
)


def axis() -> Axis:
  """The axis of the workers in the program that is being traced."""
  return _AXIS.get()


def sharing_axis() -> Axis | None:
  """The axis of a worker's devices, if they split its messages; else None."""
  return _INNER.get()


@contextlib.contextmanager
def use_axis(name: Axis, inner: Axis | None = None) -> Iterator[None]:
  """Sets the axis, or axes, of the workers for all that is traced inside.

  Args:
    name: the workers' axis or axes.
    inner: the axis of a worker's devices, if these hold equal values and split
      its messages; None: each device sends its own messages.
  """
  tokens = _AXIS.set(name), _INNER.set(inner)
  try:
    yield
  finally:
    _AXIS.reset(tokens[0])
    _INNER.reset(tokens[1])


def bind_axis(
  name: Axis, program: Callable[..., Any], inner: Axis | None = None
) -> Any:
  """Binds a worker's program to an axis of the caller's mesh, see `use_axis`.

  Under `jax.shard_map` its results are marked as varying. Inside, JAX's check
  for varying values is off, because branches and loops combine varying and
  replicated values. The axes of a worker's devices are manual inside: otherwise
  the compiler would gather the worker's data on each device for a selection,
  and each device would send the whole message.

  Raises:
    UserError: `inner` is an axis of the workers, or no axis of the mesh.
  """
  axes = names_of(name)

  def run(*args):
    with use_axis(name, inner):
      _check_inner(inner, axes)
      if not is_sharded() or (manual(inner) and not _is_tracked(name)):
        return program(*args)
      results = jax.shard_map(
        lambda *args: program(*jax.tree.map(_unmarked, args)),
        in_specs=jax.P(),
        out_specs=jax.P(),
        axis_names={*axes, *names_of(inner or ())},
        check_vma=False,
      )(*args)
    return jax.tree.map(lambda x: _varying(x, axes), results)

  return run


def _check_inner(inner: Axis | None, axes: tuple[str, ...]) -> None:
  known = jax.sharding.get_abstract_mesh().axis_names if is_sharded() else None
  for name in names_of(inner or ()):
    if name in axes or (known and name not in known):
      raise UserError(
        f'inner={inner!r}: {name!r} is no axis of this mesh other than those '
        f'of the workers, {", ".join(axes)}; name another axis, or leave inner '
        'out.'
      )


@contextlib.contextmanager
def of_groups() -> Iterator[None]:
  """Declares that, in programs traced inside, the axis is that of one group."""
  token = _IN_GROUPS.set(True)
  try:
    yield
  finally:
    _IN_GROUPS.reset(token)


def all_agree(shared: bool = False) -> bool:
  """Whether a condition that is equal along the axis is equal on all devices.

  It may not be where there are groups of workers, or devices with shards: some
  may take another branch, and a `ppermute` would wait for them for ever.

  Args:
    shared: whether the condition depends on the step only, so that it is equal
      on devices with different shards, too.
  """
  mine = {*names_of(axis()), *names_of(sharing_axis() or ())}
  others = {*jax.sharding.get_abstract_mesh().manual_axes} - mine
  return not _IN_GROUPS.get() and (shared or not (is_sharded() and others))


def random_turn(step: jax.Array) -> jax.Array:
  """Draws the turn that selects a round of messages at a step, i32[].

  All groups of workers draw the same turn although their random keys differ,
  since all have to take the same branch if there is a `ppermute` in it.
  """
  base = jax.random.wrap_key_data(jnp.zeros(2, jnp.uint32), impl='threefry2x32')
  return jax.random.randint(jax.random.fold_in(base, step), (), 0, 2**30)


def manual(names: Axis | None) -> bool:
  """Whether each device runs its own program along these axes (shard_map)."""
  manual = jax.sharding.get_abstract_mesh().manual_axes
  return {*names_of(names or ())} <= {*manual}


def is_sharded() -> bool:
  """Whether workers run on devices of their own, not as a batch of vmap."""
  return manual(axis())


def _is_tracked(name: Axis) -> bool:
  """Whether JAX tracks what varies along the workers' axes."""
  return bool(jax.typeof(lax.axis_index(name)).mat.varying)


def check_gradients(grads: Any, name: Axis, what: str) -> None:
  """Raises a UserError unless each worker of an axis has gradients of its own.

  If parameters do not vary along an axis of `jax.shard_map`, JAX itself sums
  their gradients over that axis, before any exchange. Single leaves may not
  vary: a constant 0 freezes a parameter.

  Args:
    grads: gradients of a worker.
    name: the workers' axis or axes.
    what: the function that takes the gradients, for the message.
  """
  axes = names_of(name)
  for axis_name in axes:
    try:
      lax.axis_size(axis_name)
    except NameError:
      raise UserError(
        f'{what}: there is no axis {axis_name!r} here; call it inside '
        'jax.shard_map over that axis, or set axis= to the name of yours.'
      ) from None
  if manual(name) and _is_tracked(name):
    marks = [jax.typeof(x).mat.varying for x in jax.tree.leaves(grads)]
    missing = [a for a in axes if marks and not any(a in m for m in marks)]
    if missing:
      what_axes = missing[0] if len(missing) == 1 else tuple(missing)
      raise UserError(
        f'{what}: the gradients do not vary along {", ".join(missing)}: '
        'jax.shard_map sums those of parameters that are the same on all '
        'workers. Give each worker its own before jax.grad and init, such as '
        f"jax.lax.pcast(params, {what_axes!r}, to='varying'), or set "
        'check_vma=False.'
      )


def _unmarked(x: jax.Array) -> jax.Array:
  """Removes the mark that x varies, by two operations that cost nothing."""
  return lax.squeeze(lax.expand_dims(x, (0,)), (0,))


def _varying(x: jax.Array, axes: tuple[str, ...]) -> jax.Array:
  new = tuple(a for a in axes if a not in jax.typeof(x).mat.varying)
  return lax.pcast(x, new, to='varying') if new else x


def names_of(name: Axis) -> tuple[str, ...]:
  return (name,) if isinstance(name, str) else tuple(name)
