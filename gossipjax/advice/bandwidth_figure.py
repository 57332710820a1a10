"""Draws seconds per step against bandwidth."""

import math
import pathlib
from collections.abc import Sequence

import numpy as np
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure

from gossipjax import network
from gossipjax.advice.forecast import BYTES_PER_S, Forecast
from gossipjax.comparison import units
from gossipjax.comparison.figures import STYLES, legend
from gossipjax.errors import UserError


def check(out: str) -> None:
  """Rejects an output file that cannot be drawn, before anything is measured.

  Raises:
    UserError: its suffix is not an image format, or its folder does not exist.
  """
  path = pathlib.Path(out)
  kinds = [f'.{kind}' for kind in FigureCanvasBase.get_supported_filetypes()]
  if path.suffix.lower() not in kinds:
    raise UserError(
      f'--out={path} needs one of the endings {", ".join(kinds)}.'
    )
  if not path.parent.is_dir():
    raise UserError(f'--out={path}: there is no folder {path.parent}.')


def draw(found: Sequence[Forecast], link: network.Link) -> Figure:
  """Seconds per step against bandwidth, at the link's latency."""
  figure = Figure(figsize=(9, 5), layout='constrained')
  axes = figure.subplots()
  bandwidth = (
    link.bytes_per_s if math.isfinite(link.bytes_per_s) else BYTES_PER_S[-1]
  )
  bandwidths = np.geomspace(
    min(1e6, bandwidth / 10), max(1e11, bandwidth * 10), 200
  )
  for i, f in enumerate(found):
    axes.loglog(
      bandwidths,
      [f.step_s(link._replace(bytes_per_s=b)) for b in bandwidths],
      STYLES[i // 10 % 3],
      color=f'C{i % 10}',
      label=f.name,
    )
  axes.axvline(bandwidth, color='gray', lw=1)
  left = bandwidth < (bandwidths[0] * bandwidths[-1]) ** 0.5
  axes.annotate(
    ' this link ' if bandwidth == link.bytes_per_s else ' this link: infinite ',
    (bandwidth, 1),
    va='top',
    ha='left' if left else 'right',
    color='gray',
    xycoords=('data', 'axes fraction'),
  )
  axes.set(
    xlabel="bandwidth of a worker's link, in each direction",
    ylabel=f'seconds per step, latency {link.latency_s:.3g} s (model)',
  )
  axes.margins(x=0)
  units.ticks(axes.xaxis, 'B/s')
  units.ticks(axes.yaxis, 's')
  axes.grid(alpha=0.3)
  axes.spines[['top', 'right']].set_visible(False)
  columns = -(-len(found) // 22)  # A column of 22 names fits the height.
  figure.set_figwidth(7.5 + 1.8 * columns)
  legend(figure, axes.get_lines()[: len(found)], columns)
  return figure
