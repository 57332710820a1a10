"""How the entries that travel are chosen: one file for each way.

Each has one known name, `selection(...) -> Selection`; the file's own is what
`selection.name` of a config can say.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


def _as_they_are(indices: jax.Array, *rest: Any) -> jax.Array:
  del rest
  return indices


class Selection(NamedTuple):
  """Chooses about k of n entries.

  Attributes:
    select: `(f[n], k, step, memory) -> (i32[k], memory)`, distinct indices; one
      of n means no entry. `step` is the same on all workers.
    start: `() -> memory` of one that goes by earlier steps, else None.
    narrow: `(i32[k], n) -> what travels of the indices`.
    widen: `(what travels, n) -> i32[..., k]`, also of several messages.
    in_order: whether indices ascend.
    largest: whether no entry that is left out is larger than a chosen one.
  """

  select: Callable[[jax.Array, int, Any, Any], tuple[jax.Array, Any]]
  start: Callable[[], Any] | None = None
  narrow: Callable[[jax.Array, int], jax.Array] = _as_they_are
  widen: Callable[[jax.Array, int], jax.Array] = _as_they_are
  in_order: bool = True
  largest: bool = True

  def begin(self) -> Any:
    """The memory to start with; `()` if there is none."""
    return () if self.start is None else self.start()
