"""The k largest."""

from gossipjax.compressors import largest as find
from gossipjax.compressors.selections import Selection


def selection() -> Selection:
  """Of ties the lower indices; i32, ascending: 4 bytes an index."""
  return Selection(lambda x, k, step, memory: (find.ascending(x, k), memory))
