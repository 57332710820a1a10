"""Finds the k largest entries of a vector: one file per method.

Each file defines `selection(...) -> Selection`; its name is a `selection.name`
of a config.

exact      the k largest
sampled    entries above a threshold found in a sample (DGC)
reused     entries above the threshold of the last step (Ok-Topk)
blockwise  the largest entry of each of k blocks
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


def _unchanged(indices: jax.Array, *rest: Any) -> jax.Array:
  del rest
  return indices


class Selection(NamedTuple):
  """Finds about k of n entries.

  Attributes:
    select: `(f[n], k, step, memory) -> (i32[k], memory)`, distinct indices; an
      index of n means no entry. `step` is the same on all workers.
    start: `() -> memory`, or None if the selection has no memory.
    narrow: `(i32[k], n) -> array`, the indices in the form that is sent.
    widen: `(array, n) -> i32[..., k]`, its inverse, also for several messages.
    in_order: whether indices ascend.
    largest: whether every selected entry is at least as large as any other.
  """

  select: Callable[[jax.Array, int, Any, Any], tuple[jax.Array, Any]]
  start: Callable[[], Any] | None = None
  narrow: Callable[[jax.Array, int], jax.Array] = _unchanged
  widen: Callable[[jax.Array, int], jax.Array] = _unchanged
  in_order: bool = True
  largest: bool = True

  def begin(self) -> Any:
    """The first memory; `()` if there is none."""
    return () if self.start is None else self.start()
