"""The periods of a strategy, and what comes before them, from its config."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

from gossipjax.config.parts import PARTS
from gossipjax.transforms.warmup import Warmup

LEAST, MOST = 16, 4096  # Steps that a mean is taken over.
ONCE = {'switch', 'warmup', 'warmup.steps'}  # Arguments in such steps.


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
  """Steps after which a strategy has done all that it does, at least once.

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
  own = [settings.get('switch') or 0, max(_stages(settings), default=0)]
  return max(own + [math.lcm(*periods) * beginning(part) for part in parts])


def _stages(settings: Mapping[str, Any]) -> list[int]:
  """Where the stages of a warm-up end, in steps."""
  warmup = settings.get('warmup') or 0
  if isinstance(warmup, int):  # Of a trigger.
    return [warmup]
  if not (name := warmup.get('name')):
    return []
  given = {k: v for k, v in warmup.items() if k != 'name' and v is not None}
  found = PARTS[Warmup][name](**given)
  return [found.steps * (i + 1) for i in range(len(found.densities))]


def phases(settings: Mapping[str, Any], steps: np.ndarray) -> np.ndarray:
  """Labels steps: those with equal labels do equal work, exchanges aside.

  Args:
    settings: `config.strategy`.
    steps: i64[n], from 0 on.

  Returns:
    i64[n, ...]: whether a step comes only once; the stage of the warm-up; for
    each period of a part, such as a selection that is reused, whether one
    begins.
  """
  found = [
    steps < beginning(settings),
    np.searchsorted(_stages(settings), steps, side='right'),
  ]
  for part in level(settings)[1]:
    found += [steps % period == 0 for period in level(part)[0]]
  return np.stack(found, axis=1).astype(int)


def shortened(
  settings: Mapping[str, Any], share: float, within: str = ''
) -> dict[str, Any]:
  """The settings for a shorter training, with the same share that comes once.

  Args:
    settings: `config.strategy`, or a part of it.
    share: of the steps, above 0. At least a step stays of what has some.
    within: the name of the part, and a dot.
  """
  found = {}
  for key, value in settings.items():
    if isinstance(value, Mapping | ConfigDict):
      value = shortened(value, share, f'{key}.')
    elif value and {key, within + key} & ONCE:
      value = max(1, round(share * value))
    found[key] = value
  return found


class Sample(NamedTuple):
  """Steps that stand for all of a training.

  Attributes:
    steps: i64[n], their numbers, in ascending order.
    shares: f64[n], of the training, for which each stands; their sum is 1. It
      is 0 of steps that only lead to those that follow.
  """

  steps: np.ndarray
  shares: np.ndarray


def sample(settings: Mapping[str, Any], training: int | None = None) -> Sample:
  """The beginning of a training, or MOST steps of it, and a cycle after it.

  With a period it is the second cycle: in the first one not every fragment of a
  model is sent.

  Args:
    settings: `config.strategy`.
    training: its steps; None: without a beginning.
  """
  once, length = beginning(settings), cycle(settings)
  first = once + (length if repeats(settings) > 1 else 0)
  share = min(1.0, once / training) if training else 0.0
  early = _spread(min(once, training or 0))
  late = np.arange(once, first + length)
  shares = (
    np.full(early.size, share / max(1, early.size)),
    (late >= first) * (1 - share) / length,
  )
  return Sample(np.concatenate([early, late]), np.concatenate(shares))


def _spread(steps: int) -> np.ndarray:
  """The first steps; of more than MOST one of each of MOST stretches, drawn
  since equal distances may miss a period."""
  if steps <= MOST:
    return np.arange(steps)
  ends = np.linspace(0, steps, MOST + 1).astype(int)
  return np.random.default_rng(0).integers(ends[:-1], ends[1:])
