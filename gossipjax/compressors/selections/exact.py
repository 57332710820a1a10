"""Selects the k largest entries."""

from gossipjax.compressors import largest as find
from gossipjax.compressors.selections import Selection


def selection() -> Selection:
  """Of ties it selects lower indices; indices ascend and take 4 bytes each."""
  return Selection(lambda x, k, step, memory: (find.ascending(x, k), memory))
