"""timeline.json of a variant in virtual time: each worker's first activity."""

import json
import pathlib

from gossipjax.results import workdir

# Worker; 'compute', 'wait' or 'transfer'; begin and end in virtual seconds.
Span = tuple[int, str, float, float]


def write(folder: pathlib.Path, spans: list[Span]) -> None:
  """Writes timeline.json of a variant."""
  workdir.write(folder / workdir.TIMELINE, json.dumps(spans))


def read(folder: pathlib.Path) -> list[Span]:
  """timeline.json of a variant; [] if there is none.

  Raises:
    UserError: the file is damaged.
  """
  path = folder / workdir.TIMELINE
  return workdir.read(path, list[Span]) if path.exists() else []
