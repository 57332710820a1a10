"""Selects the k largest entries."""

from gossipjax.compressors import largest as find
from gossipjax.compressors.selections import Selection


def selection() -> Selection:
  """Of ties the lower indices; ascending, 4 bytes per index."""
  return Selection(lambda x, k, step, memory: (find.ascending(x, k), memory))
