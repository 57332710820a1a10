"""The trained model of a run, model.msgpack: the model that was scored last.

The format is MessagePack as `flax.serialization` writes it: the arrays of
'params' and of 'state' by their names, such as 'Dense_0.kernel'.
"""

import os
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import serialization

from gossipjax.aggregator import Tree
from gossipjax.devices.repeated_arrays import is_key
from gossipjax.errors import UserError, check_kind
from gossipjax.tasks.task import Task
from gossipjax.training import durable_files


def write(path: pathlib.Path, params: Tree, state: Tree) -> None:
  """Writes a model, or leaves the file as it was.

  Raises:
    OSError: writing to the disk fails.
  """
  parts = {'params': named(params), 'state': named(state)}
  contents = {
    part: {name: np.asarray(_bits(x)) for name, x in leaves.items()}
    for part, leaves in parts.items()
  }
  durable_files.write(path, serialization.msgpack_serialize(contents))


def named(tree: Tree) -> dict[str, Any]:
  """The leaves of a tree by their paths, as files name them."""
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  name = lambda path: jax.tree_util.keystr(path, simple=True, separator='.')
  return {name(path): leaf for path, leaf in leaves}


def _bits(x: Any) -> Any:
  """The array itself, or the raw data of random keys."""
  return jax.random.key_data(x) if is_key(x) else x


def trained(folder: str | os.PathLike, task: Task | None = None) -> Any:
  """The model that a run has trained: the one that was scored last.

  That is the mean of the workers' models, or a server's model.

  Args:
    folder: of one finished run, such as runs/mine/topk.
    task: the task that was trained; None gives the arrays by name.

  Returns:
    For a task of `task_from_linen` the variables of `model.apply`, for one of
    `task_from_nnx` the module in evaluation mode; for other tasks what their
    `init` returns. Without a task {'params': {name: array}, 'state': {...}}.

  Raises:
    UserError: no run is finished there, or it diverged, its files are damaged,
      or it trained another model; or `task` is not a Task.
  """
  path = pathlib.Path(folder).expanduser() / durable_files.MODEL
  if not path.is_file():
    raise UserError(
      f'{path} is not there; name the folder of one run that is finished and '
      'did not diverge, such as runs/mine/topk.'
    )
  sealed = path.with_name(durable_files.MANIFEST).exists()
  if sealed and (fault := durable_files.damage(path.parent)):
    raise UserError(
      f'{path.parent} has changed since the run ended, or it has not ended: '
      f'{fault}.'
    )
  stored = serialization.msgpack_restore(path.read_bytes())
  if task is None:
    return stored
  check_kind('trained: the task', task, Task)
  forms = jax.eval_shape(task.begin, jax.random.key(0))
  params, state = (
    _in_form(form, stored[part], path)
    for form, part in zip(forms, ('params', 'state'), strict=True)
  )
  if task.as_model:
    return task.as_model(params, state)
  return (params, state) if task.stateful else params


def _in_form(form: Tree, arrays: dict[str, Any], path: pathlib.Path) -> Tree:
  """The tree of this form, with the arrays of a file as its leaves."""
  by_name = named(form)
  shapes = {name: x.shape for name, x in by_name.items() if not is_key(x)}
  known = {name: x.shape for name, x in arrays.items() if name in shapes}
  if by_name.keys() != arrays.keys() or shapes != known:
    odd = {*by_name} ^ {*arrays} or {n for n in known if known[n] != shapes[n]}
    raise UserError(
      f'{path} is of another model than this task: they differ in '
      f'{", ".join(sorted(odd)[:5])}.'
    )
  leaves = [
    jax.random.wrap_key_data(arrays[name])
    if is_key(x)
    else jnp.asarray(arrays[name])  # A traced index does not index NumPy's.
    for name, x in by_name.items()
  ]
  return jax.tree.unflatten(jax.tree.structure(form), leaves)
