"""Checks that processes that train together have the same config and files."""

import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from gossipjax.distributed import processes
from gossipjax.errors import USER_ERROR_EXIT, UserError
from gossipjax.results import reservation


def check(given: Mapping[str, Any]) -> None:
  """Checks that all processes were given the same; a single one checks nothing.

  Args:
    given: what has to agree, by name and as JSON: config, files, flags, code.

  Raises:
    UserError: in process 0, and in the first process that was given something
      else; names the difference.
    SystemExit: in the other processes, if there is a difference.
  """
  if not processes.distributed():
    return
  settings = [json.loads(text) for text in _gathered(json.dumps(given))]
  first, mine = settings[0], settings[jax.process_index()]
  for number, other in enumerate(settings):
    keys = [*reservation.differences(first, other, '')]
    if not keys:
      continue
    if processes.is_first() or mine == other:
      raise UserError(_sentence(number, keys, first, other))
    processes.leave(USER_ERROR_EXIT)


def _gathered(text: str) -> list[str]:
  """Gathers the texts of all processes, in their order."""
  encoded = np.frombuffer(text.encode(), np.uint8)
  sizes = multihost_utils.process_allgather(np.int32(encoded.size))
  padded = np.zeros(sizes.max(), np.uint8)
  padded[: encoded.size] = encoded
  rows = multihost_utils.process_allgather(padded)
  return [
    row[:size].astype(np.uint8).tobytes().decode()
    for row, size in zip(rows, sizes, strict=True)
  ]


def _sentence(number: int, keys: list[str], first: Any, other: Any) -> str:
  shown = [
    f'{key}={_at(other, key)} and not {_at(first, key)}' for key in keys[:3]
  ]
  more = f', and {len(keys) - 3} more' if len(keys) > 3 else ''
  return (
    f'Process {number} has other settings than process 0: '
    f'{", ".join(shown)}{more}. Start all processes with the same config, '
    'files, flags, code and versions.'
  )


def _at(tree: Any, key: str) -> Any:
  """The value at a dotted key; 'nothing' if there is none."""
  if key in tree:  # The name of a file or module, which has dots of its own.
    return tree[key]
  for word in key.split('.'):
    tree = tree.get(word, 'nothing') if isinstance(tree, dict) else 'nothing'
  return tree
