"""Plots of points: in one line per name, or with names beside the points."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from experiments.framework import figures

_FAR = (3, 12, 20, 30, 42)  # Distances of a name from its point, in 1/72 inch.
_LINE = {'arrowstyle': '-', 'color': '0.6', 'linewidth': 0.5}
_MARK = 4  # Half the width of a marker, in pixels.


def by_workload(
  rows: Sequence[dict[str, Any]],
  name: str,
  by: str,
  columns: Mapping[str, str],
) -> Figure:
  """Draws a row of panels for each workload, each with a point per table row.

  Args:
    rows: rows of the table; a row without a value leaves its place empty.
    name: column that names the points, from top to bottom.
    by: column of the points' groups; a group has one color.
    columns: column that a panel shows -> column with the half length of the
      error bars, or ''.
  """
  workloads = figures.distinct(rows, 'workload') or ['']
  size = 1 + 4 * len(columns), 3.4 * len(workloads)
  found = Figure(figsize=size, layout='constrained')
  grid = found.subplots(
    len(workloads), len(columns), squeeze=False, sharey='row'
  )
  for workload, panels in zip(workloads, grid, strict=True):
    group = [row for row in rows if row['workload'] == workload]
    for axes, (x, error) in zip(panels, columns.items(), strict=True):
      _dots(axes, group, name, x, by, error)
    panels[0].set_title(workload)
  figures.legend(found, *grid.flat)
  return found


def _dots(
  axes: Axes,
  rows: Sequence[dict[str, Any]],
  name: str,
  x: str,
  by: str,
  error: str,
) -> None:
  names, groups = figures.distinct(rows, name), figures.distinct(rows, by)
  for i, group in enumerate(groups):
    shift = 0.2 * (i - (len(groups) - 1) / 2)
    shown = [row for row in rows if row[by] == group and row[x] is not None]
    axes.errorbar(
      [row[x] for row in shown],
      [names.index(row[name]) + shift for row in shown],
      xerr=[row[error] or 0 for row in shown] if error else None,
      fmt='o',
      color=f'C{i}',
      label=f'{group} {by}' if isinstance(group, int) else group,
    )
  label = f'{x}\n(bars: {error.removeprefix(f"{x}, ")})' if error else x
  axes.set(xlabel=label, ylim=(len(names) - 0.5, -0.5))
  axes.set_yticks(range(len(names)), names)
  axes.grid(axis='y', alpha=0.3)


def write_names(axes: Axes, points: Mapping[str, tuple[float, float]]) -> None:
  """Writes each name where there is room near its point, in the given order.

  A name that is farther away is joined to its point by a line. A name is left
  out if at every place it would cover a point, another name or the frame.

  Args:
    axes: the panel, with everything drawn except the names.
    points: name -> x, y; the most important first.
  """
  if not hasattr(axes.figure.canvas, 'get_renderer'):
    FigureCanvasAgg(axes.figure)  # Else each measured text makes a renderer.
  axes.figure.draw_without_rendering()  # The layout decides where points are.
  taken = [_around(axes, point) for point in points.values()]
  for name, point in points.items():
    if box := _place(axes, name, point, taken):
      taken.append(box)


def _around(axes: Axes, point: tuple[float, float]) -> Bbox:
  x, y = axes.transData.transform(point)
  return Bbox([[x - _MARK, y - _MARK], [x + _MARK, y + _MARK]])


def _place(
  axes: Axes, name: str, point: tuple[float, float], taken: list[Bbox]
) -> Bbox | None:
  """Writes a name at the first free place and returns its box, else None."""
  for distance in _FAR:
    for right in (1, -1):
      for up in (1, -1):
        offset: Any = {'xytext': (distance * right, distance * up)}
        offset |= {'textcoords': 'offset points'}
        ha, va = 'left' if right > 0 else 'right', 'bottom' if up > 0 else 'top'
        text = axes.annotate(name, point, fontsize=7, ha=ha, va=va, **offset)
        box = text.get_window_extent()
        inside = box.x0 > axes.bbox.x0 and box.x1 < axes.bbox.x1
        inside &= box.y0 > axes.bbox.y0 and box.y1 < axes.bbox.y1
        if inside and not any(box.overlaps(other) for other in taken):
          if distance > _FAR[0]:
            axes.annotate('', point, arrowprops=_LINE, **offset)
          return box
        text.remove()
  return None
