"""The mesh axes of the workers and of the devices of a worker."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gossipjax.errors import UserError

WORKERS = 'workers'  # The mesh axis, unless `over` says another.
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
  """The axis of the workers, for what is traced now."""
  return _AXIS.get()


def sharing_axis() -> Axis | None:
  """The axis of a worker's devices, if they split its messages; else None."""
  return _INNER.get()


@contextlib.contextmanager
def over(name: Axis, inner: Axis | None = None) -> Iterator[None]:
  """Sets the axis, or axes, of the workers for all that is traced inside.

  Args:
    name: of the workers' axis or axes.
    inner: of the devices of a worker that hold the same and split its messages;
      None: each device sends its own messages.
  """
  before = _AXIS.set(name), _INNER.set(inner)
  try:
    yield
  finally:
    _AXIS.reset(before[0])
    _INNER.reset(before[1])


def along(
  name: Axis, program: Callable[..., Any], inner: Axis | None = None
) -> Any:
  """The program of one worker, along an axis of the caller's mesh; see `over`.

  Under `jax.shard_map` its results are marked as varying. Inside, JAX's check
  for varying values is off, because branches and loops combine varying and
  replicated values. The axes of a worker's devices are manual inside: otherwise
  the compiler would gather the worker's data on each device for a selection,
  and each device would send the whole message.

  Raises:
    UserError: `inner` is an axis of the workers, or not one of the mesh.
  """
  axes = names_of(name)

  def run(*args):
    with over(name, inner):
      _check_inner(inner, axes)
      if not is_sharded() or (manual(inner) and not _is_tracked(name)):
        return program(*args)
      found = jax.shard_map(
        lambda *args: program(*jax.tree.map(_unmarked, args)),
        in_specs=jax.P(),
        out_specs=jax.P(),
        axis_names={*axes, *names_of(inner or ())},
        check_vma=False,
      )(*args)
    return jax.tree.map(lambda x: _varying(x, axes), found)

  return run


def _check_inner(inner: Axis | None, axes: tuple[str, ...]) -> None:
  there = jax.sharding.get_abstract_mesh().axis_names if is_sharded() else None
  for name in names_of(inner or ()):
    if name in axes or (there and name not in there):
      raise UserError(
        f'inner={inner!r}: {name!r} is no axis of this mesh beside those of '
        f'the workers, {", ".join(axes)}; name another, or leave inner out.'
      )


@contextlib.contextmanager
def of_groups() -> Iterator[None]:
  """For what is traced inside, the workers of the axis are those of a group."""
  before = _IN_GROUPS.set(True)
  try:
    yield
  finally:
    _IN_GROUPS.reset(before)


def all_agree(shared: bool = False) -> bool:
  """Whether no device has other workers to agree with than those of the axis.

  Where there are groups of workers, or devices with shards, some may take
  another branch than others: a `ppermute` in it would wait for them for ever.

  Args:
    shared: whether they agree on what depends on the step only, so that devices
      with different shards do, too.
  """
  mine = {*names_of(axis()), *names_of(sharing_axis() or ())}
  others = {*jax.sharding.get_abstract_mesh().manual_axes} - mine
  return not _IN_GROUPS.get() and (shared or not (is_sharded() and others))


def random_turn(step: jax.Array) -> jax.Array:
  """A turn among rounds of messages, i32[], drawn anew at each step.

  It is the same in all groups of workers, whose keys of random numbers differ:
  all have to take the same branch where there is a `ppermute` in it.
  """
  same = jax.random.wrap_key_data(jnp.zeros(2, jnp.uint32), impl='threefry2x32')
  return jax.random.randint(jax.random.fold_in(same, step), (), 0, 2**30)


def manual(names: Axis | None) -> bool:
  """Whether each device runs the program of its own along these axes."""
  manual = jax.sharding.get_abstract_mesh().manual_axes
  return {*names_of(names or ())} <= {*manual}


def is_sharded() -> bool:
  """Whether the workers are on devices of their own, not a batch of vmap."""
  return manual(axis())


def _is_tracked(name: Axis) -> bool:
  """Whether JAX tracks what varies along the workers' axes."""
  return bool(jax.typeof(lax.axis_index(name)).mat.varying)


def check_gradients(grads: Any, name: Axis, what: str) -> None:
  """Raises a UserError unless each worker of an axis has gradients of its own.

  Those of parameters that do not vary along an axis of `jax.shard_map` are sums
  over it, which JAX has made before anybody exchanges them. Some leaves may not
  vary: a constant 0 freezes a parameter.

  Args:
    grads: of a worker.
    name: of the workers' axis or axes.
    what: takes the gradients, for the sentence.
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
  """x through operations that lose the mark of what varies, and are free."""
  return lax.squeeze(lax.expand_dims(x, (0,)), (0,))


def _varying(x: jax.Array, axes: tuple[str, ...]) -> jax.Array:
  new = tuple(a for a in axes if a not in jax.typeof(x).mat.varying)
  return lax.pcast(x, new, to='varying') if new else x


def names_of(name: Axis) -> tuple[str, ...]:
  return (name,) if isinstance(name, str) else tuple(name)
