"""Bytes and seconds in words, and axes whose ticks have units."""

import math
from collections.abc import Sequence
from typing import Any

UNITS = ((1e15, 'PB'), (1e12, 'TB'), (1e9, 'GB'), (1e6, 'MB'), (1e3, 'kB'))


def size(num_bytes: float, digits: int = 3) -> str:
  """Bytes to so many digits, with a decimal unit."""
  for scale, unit in UNITS:
    if num_bytes >= (1 - 10**-digits / 2) * scale:
      return f'{num_bytes / scale:.{digits}g} {unit}'
  return f'{num_bytes:.0f} B'


def count(number: float) -> str:
  """A count; a mean count to four digits, or whole from 1,000 on."""
  whole = number >= 1000 or number == round(number)
  return f'{number:.0f}' if whole else f'{number:.4g}'


def duration(seconds: float) -> str:
  """Seconds to three digits; whole ones from 1,000 on."""
  return f'{seconds:,.0f} s' if seconds >= 999.5 else f'{seconds:.3g} s'


def loss(value: float) -> str:
  """A mean loss to four digits; '' for NaN: no gradient was used."""
  if math.isnan(value):
    return ''
  return f'{value:.4f}' if abs(value) >= 0.1 or value == 0 else f'{value:.4g}'


def deviation(value: float) -> str:
  """A deviation to two digits; a whole number from 100 on."""
  return f'{value:,.0f}' if value >= 99.5 else f'{value:.2g}'


def ticks(axis: Any, unit: str) -> None:
  """Labels an axis of matplotlib with numbers that have a unit.

  Args:
    axis: such as `axes.xaxis`; its scale is set before.
    unit: 'B', 'B/s', 's', '%' or '' for plain numbers.
  """
  from matplotlib import ticker  # Training needs no matplotlib.

  def as_text(value: float, _: Any = None) -> str:
    digits = _digits(value, axis.get_majorticklocs())
    if unit in ('B', 'B/s'):
      return size(value, digits) + unit[1:]
    if unit == '%':
      return f'{100 * value:.{max(digits, 4)}g} %'
    if 1e3 <= abs(value) < 1e6:  # Larger: a loss that blew up.
      digits = max(digits, 6)
    return f'{value:,.{digits}g} {unit}'.strip()

  axis.set_major_formatter(ticker.FuncFormatter(as_text))
  low, high = sorted(axis.get_view_interval())
  if axis.get_scale() != 'log' or low <= 0:
    return
  # Less than 1.5 decades have few powers of ten, so 2 and 5 are added.
  few = high / low < 10**1.5
  axis.set_major_locator(
    ticker.LogLocator(subs=(1, 2, 5) if few else (1,), numticks=6)
  )
  axis.set_minor_formatter(ticker.NullFormatter())


def _digits(value: float, ticks: Sequence[float]) -> int:
  """Digits that tell a tick from its neighbors, at least three."""
  order = lambda number: math.floor(math.log10(abs(number)))
  gaps = [abs(value - tick) for tick in ticks if tick != value]
  if not gaps or not value:
    return 3
  return max(3, order(value) - order(min(gaps)) + 2)
