"""Seconds per step of a strategy on any link, also relative to all-reduce."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gossipjax import network
from gossipjax.advice.risk import Risk
from gossipjax.advice.step_traffic import StepTraffic
from gossipjax.comparison import units

BYTES_PER_S = np.geomspace(1e3, 1e13, 401)  # To search for a break-even.


class Forecast(NamedTuple):
  """The parts of a step's time, for one strategy.

  Attributes:
    name: of the strategy or variant.
    compute_s: seconds of the gradient and the optimizer.
    select_s: seconds that the strategy adds, without communication.
    traffic: what it sends.
    risk: the risk of missing the target, see risk.py.
  """

  name: str
  compute_s: float
  select_s: float
  traffic: StepTraffic
  risk: Risk = Risk()

  def comm_s(self, link: network.Link) -> float:
    """Modelled seconds of communication, mean over steps."""
    return float(self.traffic.shares @ network.seconds(link, self.traffic.sent))

  def step_s(self, link: network.Link) -> float:
    """Seconds of a whole step, mean over steps."""
    return self.compute_s + self.select_s + self.comm_s(link)

  def expected(self, dense: 'Forecast', link: network.Link) -> float:
    """The expected time to the target, relative to all-reduce's.

    All-reduce is assumed to reach it at its last step. A strategy that learns
    more slowly may need more steps than all-reduce has.

    Args:
      dense: the forecast of all-reduce.
      link: the link that the user asks about.
    """
    whole = self.step_s(link) / dense.step_s(link)
    known = self.risk.relative_steps
    steps = 1.0 if math.isnan(known) else known
    return self.risk.expected(steps * whole, whole, 1.0)


def break_even(mine: Forecast, dense: Forecast, link: network.Link) -> float:
  """Finds the bandwidth below which a strategy is faster than all-reduce.

  All other properties of the link are kept.

  Returns:
    Bytes per second; 0 if the strategy is never faster within BYTES_PER_S,
    infinity if it always is, NaN if it is faster only above some bandwidth.
  """

  def gain(bytes_per_s: float) -> float:
    other = link._replace(bytes_per_s=bytes_per_s)
    return dense.step_s(other) - mine.step_s(other)

  wins = np.array([gain(b) > 0 for b in BYTES_PER_S])
  if wins.all() or not wins.any():
    return math.inf if wins.all() else 0.0
  if not wins[0]:
    return math.nan
  low, high = BYTES_PER_S[np.argmin(wins) - 1], BYTES_PER_S[np.argmin(wins)]
  for _ in range(40):
    middle = math.sqrt(low * high)
    low, high = (middle, high) if gain(middle) > 0 else (low, middle)
  return low


def rows(found: Sequence[Forecast], link: network.Link) -> list[dict[str, Any]]:
  """The rows of the table; the first forecast is that of all-reduce."""
  dense = found[0]
  return [
    {
      'strategy': f.name,
      'seconds per step': f.step_s(link),
      'computing, s': f.compute_s,
      'selecting and merging, s': f.select_s,
      'communication, s (model)': f.comm_s(link),
      'share of computing': f'{100 * f.compute_s / f.step_s(link):.0f} %',
      'faster than all-reduce': _below(f, dense, link),
      'misses the target': '' if f is dense else f.risk.as_text,
      "expected time to the target over all-reduce's": (
        '' if f is dense else f'{f.expected(dense, link):.3g}'
      ),
    }
    for f in found
  ]


def _below(mine: Forecast, dense: Forecast, link: network.Link) -> str:
  if mine is dense:
    return ''
  edge = break_even(mine, dense, link)
  words = {0.0: 'never', math.inf: 'always'}
  if math.isnan(edge):
    return 'on fast links only'
  return words.get(edge) or f'below {units.size(edge)}/s'
