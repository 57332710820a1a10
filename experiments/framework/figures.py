"""Drawing functions that the figures of claims share: lines, bars, legends."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.framework import seed_statistics
from gossipjax.comparison import units


def distinct(rows: Iterable[dict[str, Any]], key: str) -> list[Any]:
  """The different values of a column, in the order of the rows."""
  return list(dict.fromkeys(row[key] for row in rows))


def lines(
  axes: Axes,
  rows: Iterable[dict[str, Any]],
  x: str,
  y: str,
  by: str,
  style: str = '.-',
  names: Sequence[Any] = (),
  error: str = '',
) -> None:
  """Draws a line of y against x for each value of the column `by`.

  Rows without y are left out.

  Args:
    axes: the panel.
    rows: of the panel.
    x, y, by: columns.
    style: of lines and points.
    names: all values of `by`, in the order of their colors; by default those of
      `rows`, which is enough if all panels have the same values.
    error: column with the half length of each point's error bar; '': no bars.
  """
  rows = list(rows)
  for i, name in enumerate(names or distinct(rows, by)):
    group = [row for row in rows if row[by] == name and row[y] is not None]
    axes.errorbar(
      [row[x] for row in group],
      [row[y] for row in group],
      [row[error] or 0 for row in group] if error else None,
      fmt=style,
      color=f'C{i}',
      label=name,
    )


def curves(
  axes: Axes,
  found: Mapping[str, tuple[Sequence[float], Sequence[float | None]]],
) -> None:
  """Draws a line for each name; names whose lines coincide share one line.

  Args:
    axes: the panel.
    found: name -> x, y; a point without y is left out.
  """
  shared: dict[str, tuple[list[str], Any]] = {}
  for name, points in found.items():
    key = str([[f'{v or 0:.2g}' for v in values] for values in points])
    shared.setdefault(key, ([], points))[0].append(name)
  for i, (names, points) in enumerate(shared.values()):
    style = ('.-', 's--', '^:')[i // 10]  # There are ten colors.
    label = '\n'.join(names)
    axes.plot(*points, style, color=f'C{i % 10}', ms=4, label=label)


def accuracies(
  panels: Sequence[Axes],
  rows: Sequence[dict[str, Any]],
  by: str,
  x: str,
  name: str,
) -> None:
  """Plots held-out accuracy and its standard deviation against column `x`.

  Args:
    panels: one for each value of the column `by`.
    name: column that decides the color.
  """
  names = distinct(rows, name)
  for axes, value in zip(panels, distinct(rows, by), strict=False):
    for row in (row for row in rows if row[by] == value):
      axes.errorbar(
        row[x],
        row['held-out accuracy %'],
        row[seed_statistics.DEVIATION] or 0,
        color=f'C{names.index(row[name])}',
        marker='o',
        label=row[name],
      )
    axes.set(title=value, xlabel=x)
    axes.set_ylabel('held-out accuracy % (bars: standard deviation)')


def bars(
  axes: Axes,
  rows: Sequence[dict[str, Any]],
  name: str,
  labels: Mapping[str, str],
  missing: Callable[[dict[str, Any], str], str],
) -> None:
  """Draws horizontal bars of two columns for each row, and a line at 1.

  Args:
    name: column that names the rows.
    labels: of the two columns, in the legend.
    missing: (row, key) -> text where there is no value.
  """
  for k, (key, label) in enumerate(labels.items()):
    values = {}
    for y, row in enumerate(rows):
      position = y + 0.18 * (2 * k - 1)
      if row[key] is None:
        axes.text(0.02, position, missing(row, key), va='center', fontsize=7)
      else:
        values[position] = row[key]
    axes.barh([*values], [*values.values()], 0.34, color=f'C{k}', label=label)
  axes.axvline(1, color='0.5', linewidth=0.8)
  axes.set_yticks(range(len(rows)), [row[name] for row in rows])


def units_of_axes(figure: Figure) -> None:
  """Formats ticks with the unit that the label of their axis names; a y axis
  without a label uses the label of the first panel."""
  first = figure.axes[0].yaxis.get_label_text() if figure.axes else ''
  for axes in figure.axes:
    if axes.get_xlabel() == 'workers':
      axes.xaxis.set_major_formatter('{x:,.0f}')
    for axis in (axes.xaxis, axes.yaxis):
      label = axis.get_label_text() or first * (axis is axes.yaxis)
      match = re.match(
        r'(communication |virtual )?(bytes|seconds)\b(?!.* over )', label
      )
      if match:
        units.ticks(axis, {'bytes': 'B', 'seconds': 's'}[match[2]])


def over_workers(axes: Axes) -> None:
  """Puts the number of workers on the x axis, with a base-2 log scale."""
  axes.set(xlabel='workers')
  if math.isfinite(axes.dataLim.minposx):
    axes.set_xscale('log', base=2)
  else:  # There is no point to show.
    axes.set(xticks=[], yticks=[])


def legend(figure: Figure, *panels: Axes) -> None:
  """Draws one legend outside the panels, with each label once."""
  labels = {}
  for axes in panels:
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
      labels.setdefault(label, handle)
  figure.legend(
    labels.values(),
    labels,
    frameon=False,
    loc='outside right upper',
    fontsize='small' if len(labels) > 10 else None,
  )
