"""The target of a comparison: which score is better, and which is enough."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

SHARE = 0.99  # Of all-reduce's best score; the default.


def pick(higher: bool) -> Callable[..., float]:
  """max or min: which value of a score is the best."""
  return max if higher else min


def share_of(config: Mapping[str, Any]) -> float:
  """`config.target_share`; configs of older versions have none."""
  return config.get('target_share', SHARE)


def asking_for(share: float) -> dict[str, float]:
  """The config keys that make a share of all-reduce's best score the target."""
  return {'target': 0.0, 'target_share': share}


def target_of(
  bests: Iterable[float], higher: bool, part: float = SHARE
) -> float:
  """The target that all-reduce sets: a share of the best score of its worst
  seed, so that every seed of all-reduce reaches it.

  Args:
    bests: the best score of each seed.
    higher: whether large values are good.
    part: the share that is enough, `config.target_share`.
  """
  return share(min(bests) if higher else max(bests), higher, 1 - part)


def share(best: float, higher: bool, less: float = 1 - SHARE) -> float:
  """A score that is worse than `best` by the fraction `less` of it."""
  worse = less * abs(best)
  return best - worse if higher else best + worse
