"""The periods and the one-time steps of a strategy, from its config.

One-time steps are those before a switch, and those of a warm-up.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

from gossipjax.config.parts import PARTS
from gossipjax.transforms.warmup import Warmup

# Bounds on the steps that a mean is taken over.
MIN_STEPS, MAX_STEPS = 16, 4096
ONCE = {'switch', 'warmup', 'warmup.steps'}  # Counts of one-time steps.


def level(settings: Mapping[str, Any]) -> tuple[list[int], list[Any]]:
  """Returns a config's periods, and its parts, which may have further ones."""
  periods = [v for k, v in settings.items() if k.endswith('period') and v]
  parts = [v for v in settings.values() if isinstance(v, Mapping | ConfigDict)]
  return periods, parts


def repeats(settings: Mapping[str, Any]) -> int:
  """Returns the steps after which traffic repeats, or a multiple of them.

  A period within a part, such as the outer strategy of hierarchical, may count
  runs of the part, so it multiplies the periods around it.

  Args:
    settings: `config.strategy`, or a part of it.
  """
  periods, parts = level(settings)
  return math.lcm(*periods) * math.prod(map(repeats, parts))


def longest(settings: Mapping[str, Any]) -> int:
  """Returns the steps within which every periodic action happens at least once.

  Args:
    settings: `config.strategy`, or a part of it.
  """
  periods, parts = level(settings)
  return max(periods, default=1) * max(map(longest, parts), default=1)


def cycle(settings: Mapping[str, Any]) -> int:
  """Counts the steps of enough whole repetitions of the traffic for a mean.

  At least MIN_STEPS, and at most MAX_STEPS even if traffic repeats later.

  Args:
    settings: `config.strategy`.
  """
  steps = repeats(settings)
  return min(MAX_STEPS, steps * -(-MIN_STEPS // steps))


def beginning(settings: Mapping[str, Any]) -> int:
  """Returns the number of one-time steps at the beginning of a training.

  Args:
    settings: `config.strategy`, or a part of it.
  """
  periods, parts = level(settings)
  ends = [settings.get('switch') or 0, max(_stages(settings), default=0)]
  return max(ends + [math.lcm(*periods) * beginning(part) for part in parts])


def _stages(settings: Mapping[str, Any]) -> list[int]:
  """Returns the step at which each stage of a warm-up ends."""
  warmup = settings.get('warmup') or 0
  if isinstance(warmup, int):  # A trigger's.
    return [warmup]
  if not (name := warmup.get('name')):
    return []
  arguments = {k: v for k, v in warmup.items() if k != 'name' and v is not None}
  found = PARTS[Warmup][name](**arguments)
  return [found.steps * (i + 1) for i in range(len(found.densities))]


def phases(settings: Mapping[str, Any], steps: np.ndarray) -> np.ndarray:
  """Labels steps; equal labels mean equal work, apart from exchanges.

  Args:
    settings: `config.strategy`.
    steps: i64[n], from 0 on.

  Returns:
    i64[n, ...]: whether a step is a one-time step; the stage of the warm-up;
    for each period of a part, such as that of a selection that is reused,
    whether a new one begins.
  """
  labels = [
    steps < beginning(settings),
    np.searchsorted(_stages(settings), steps, side='right'),
  ]
  for part in level(settings)[1]:
    labels += [steps % period == 0 for period in level(part)[0]]
  return np.stack(labels, axis=1).astype(int)


def shortened(
  settings: Mapping[str, Any], share: float, within: str = ''
) -> dict[str, Any]:
  """Scales the one-time steps of a strategy to a shorter training.

  Args:
    settings: `config.strategy`, or a part of it.
    share: the fraction of steps that is left, above 0. A count of steps stays
      at least 1.
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
  """Steps that represent a whole training.

  Attributes:
    steps: i64[n], their numbers, in ascending order.
    shares: f64[n], the fraction of the training that each step represents;
      their sum is 1. A step that only prepares later ones has 0.
  """

  steps: np.ndarray
  shares: np.ndarray


def sample(settings: Mapping[str, Any], training: int | None = None) -> Sample:
  """Samples the one-time steps of a training, at most MAX_STEPS, and a cycle.

  If traffic has a period, the second cycle counts: in the first one not every
  fragment of a model is sent.

  Args:
    settings: `config.strategy`.
    training: steps of the training; None leaves the one-time steps out.
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
  """The first steps; of more than MAX_STEPS, one drawn from each of as many
  intervals, since equally spaced steps may miss a period."""
  if steps <= MAX_STEPS:
    return np.arange(steps)
  ends = np.linspace(0, steps, MAX_STEPS + 1).astype(int)
  return np.random.default_rng(0).integers(ends[:-1], ends[1:])
