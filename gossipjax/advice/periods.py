"""The periods of a strategy, and what comes before them, from its config."""

import math
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from gossipjax.config.parts import PARTS
from gossipjax.transforms.warmup import Warmup

LEAST, MOST = 16, 4096  # Steps that a mean is taken over.


def level(settings: Mapping[str, Any]) -> tuple[list[int], list[Any]]:
  """The periods of a strategy's config, and the parts that may have others."""
  periods = [v for k, v in settings.items() if k.endswith('period') and v]
  parts = [v for v in settings.values() if isinstance(v, Mapping | ConfigDict)]
  return periods, parts


def repeats(settings: Mapping[str, Any]) -> int:
  """Steps after which traffic repeats, or a multiple of them.

  A period within a part, such as the outer strategy of hierarchical, may count
  runs of the part, so it multiplies those around it.

  Args:
    settings: `config.strategy`, or a part of it.
  """
  periods, parts = level(settings)
  return math.lcm(*periods) * math.prod(map(repeats, parts))


def longest(settings: Mapping[str, Any]) -> int:
  """Steps between two exchanges, at most.

  Args:
    settings: `config.strategy`, or a part of it.
  """
  periods, parts = level(settings)
  return max(periods, default=1) * max(map(longest, parts), default=1)


def cycle(settings: Mapping[str, Any]) -> int:
  """Whole repetitions of the traffic, enough steps to take a mean over.

  Of traffic that repeats after more than MOST steps, MOST of them.

  Args:
    settings: `config.strategy`.
  """
  steps = repeats(settings)
  return min(MOST, steps * -(-LEAST // steps))


def beginning(settings: Mapping[str, Any]) -> int:
  """Steps that come only once: before a switch, of a warm-up.

  Args:
    settings: `config.strategy`, or a part of it.
  """
  periods, parts = level(settings)
  own = [settings.get('switch') or 0]
  stages = dict(settings.get('warmup') or {})
  if name := stages.pop('name', None):
    given = {key: value for key, value in stages.items() if value is not None}
    found = PARTS[Warmup][name](**given)
    own.append(len(found.densities) * found.steps)
  return max(own + [math.lcm(*periods) * beginning(part) for part in parts])
