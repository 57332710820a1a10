"""Whether a checkpoint has the arrays that a run would continue with."""

import pathlib
from typing import Any

import orbax.checkpoint as ocp

from gossipjax.aggregator import Tree
from gossipjax.devices.repeated_arrays import is_key
from gossipjax.errors import UserError
from gossipjax.training import model_file


def check(place: pathlib.Path, like: Tree) -> None:
  """Checks that a checkpoint has the arrays of a run: names, shapes, dtypes.

  Args:
    place: the folder of the checkpoint of a step.
    like: the run's workers, arrays or their shapes.

  Raises:
    UserError: they differ, as those of another version of a method may.
  """
  reader = ocp.PyTreeCheckpointer()
  arrays = place.absolute() / 'workers'  # Else orbax reads no names.
  stored = model_file.named(reader.metadata(arrays).item_metadata.tree)
  needed = model_file.named(like)
  odd = [
    name
    for name in sorted({*stored, *needed})
    if not {name} <= stored.keys() & needed.keys()
    or not _alike(name, stored[name], needed[name])
  ]
  if not odd:
    return
  listed = lambda found: (
    ', '.join([_text(k, found[k]) for k in odd if k in found][:5]) or 'nothing'
  )
  raise UserError(
    f'{place} is a checkpoint of another model, optimizer or strategy, or of '
    f'another version of one: it has {listed(stored)} in place of '
    f'{listed(needed)}. Resume with the model, the optimizer and the '
    'strategy of that run, at the commit in its config.json, or name another '
    'folder.'
  )


def _alike(name: str, stored: Any, needed: Any) -> bool:
  """Whether an array can be restored. A server's has no axis of workers; losses
  were once kept as a task computes them."""
  if is_key(needed):
    return True  # Its shape in a file is that of its data.
  shapes = needed.shape, needed.shape[1:]
  alike = stored.dtype == needed.dtype or name == 'losses'
  return stored.shape in shapes and alike


def _text(name: str, leaf: Any) -> str:
  return f'{name} {leaf.dtype}{list(leaf.shape)}'
