"""Processes that train together have to be given the same."""

import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from gossipjax.distributed import processes
from gossipjax.errors import MISTAKE, UserError
from gossipjax.results import reservation


def check(given: Mapping[str, Any]) -> None:
  """Checks that all processes were given the same; alone, does nothing.

  Args:
    given: by name, for JSON: the config, and flags that have to agree.

  Raises:
    UserError: a process was given something else than the first; on these two.
    SystemExit: on the others.
  """
  if not processes.distributed():
    return
  everyone = [json.loads(text) for text in _gathered(json.dumps(given))]
  first, mine = everyone[0], everyone[jax.process_index()]
  for number, other in enumerate(everyone):
    keys = [*reservation.differences(first, other, '')]
    if not keys:
      continue
    if processes.first() or mine == other:
      raise UserError(_sentence(number, keys, first, other))
    processes.leave(MISTAKE)


def _gathered(text: str) -> list[str]:
  """The texts of all processes."""
  mine = np.frombuffer(text.encode(), np.uint8)
  sizes = multihost_utils.process_allgather(np.int32(mine.size))
  padded = np.zeros(sizes.max(), np.uint8)
  padded[: mine.size] = mine
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
    f'Process {number} was given something else than process 0: '
    f'{", ".join(shown)}{more}. Start all processes with the same config file '
    'and the same flags.'
  )


def _at(tree: Any, key: str) -> Any:
  """The value at a dotted key; 'nothing' if there is none."""
  for word in key.split('.'):
    tree = tree.get(word, 'nothing') if isinstance(tree, dict) else 'nothing'
  return tree
