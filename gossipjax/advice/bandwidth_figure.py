"""Draws seconds per step against bandwidth."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from gossipjax import network
from gossipjax.advice.forecast import Forecast
from gossipjax.comparison.figures import STYLES


def draw(found: Sequence[Forecast], link: network.Link) -> Figure:
  """Seconds per step against bandwidth, at the link's latency."""
  figure = Figure(figsize=(9, 5), layout='constrained')
  axes = figure.subplots()
  bandwidth = np.geomspace(
    min(1e6, link.bytes_per_s / 10), max(1e11, link.bytes_per_s * 10), 200
  )
  for i, f in enumerate(found):
    axes.loglog(
      bandwidth,
      [f.step_s(network.Link(link.latency_s, b)) for b in bandwidth],
      STYLES[i // 10 % 3],
      color=f'C{i % 10}',
      label=f.name,
    )
  axes.axvline(link.bytes_per_s, color='gray', lw=1)
  axes.annotate(
    ' this link',
    (link.bytes_per_s, 1),
    va='top',
    color='gray',
    xycoords=('data', 'axes fraction'),
  )
  axes.set(
    xlabel="bandwidth of a worker's link, bytes per second",
    ylabel=f'seconds per step, latency {link.latency_s:.3g} s (model)',
  )
  axes.grid(alpha=0.3)
  axes.spines[['top', 'right']].set_visible(False)
  figure.legend(loc='outside right upper', frameon=False)
  return figure
