"""The interactive chart of report.html, and the numbers that it draws.

Bokeh draws it, because its script has 1.3 MB and Plotly's 4.7 MB.
"""

import math
import re
from typing import Any

import numpy as np
import pandas as pd
from bokeh.embed import json_item
from bokeh.models import (
  ColumnDataSource,
  CustomJSTickFormatter,
  DataRange1d,
  HoverTool,
)
from bokeh.plotting import figure
from bokeh.resources import Resources

COLORS = (
  '#1f77b4',
  '#ff7f0e',
  '#2ca02c',
  '#d62728',
  '#9467bd',
  '#8c564b',
  '#e377c2',
  '#7f7f7f',
  '#bcbd22',
  '#17becf',
)
DASHES = ('solid', 'dashed', 'dotted')


def style(i: int) -> tuple[str, str]:
  """Color and dash of the line of run `i`."""
  return COLORS[i % len(COLORS)], DASHES[i // len(COLORS) % len(DASHES)]


def thinned(rows: pd.DataFrame, most: int) -> pd.DataFrame:
  """At most `most` records of a run, evenly chosen.

  Up to half of them are evaluated ones, so that these are not lost.
  """
  if len(rows) <= most:
    return rows
  scores = rows.filter(regex='^test_').dropna(axis=1, how='all')
  evaluated = np.flatnonzero(scores.notna().all(axis=1))
  kept = _evenly(evaluated, most // 2)
  others = np.setdiff1d(np.arange(len(rows)), kept)
  return rows.iloc[np.union1d(kept, _evenly(others, most - len(kept)))]


def _evenly(indices: np.ndarray, most: int) -> np.ndarray:
  if len(indices) <= most:
    return indices
  return indices[np.linspace(0, len(indices) - 1, most).round().astype(int)]


def numbers(rows: pd.DataFrame) -> dict[str, list]:
  """Columns for JSON: integers exact, others to six digits, None for NaN."""
  return {
    name: [_short(v) for v in column.tolist()] for name, column in rows.items()
  }


def _short(value: float) -> float | None:
  if isinstance(value, int):
    return value
  return float(f'{value:.6g}') if math.isfinite(value) else None


def chart(
  lines: int,
  costs: dict[str, str],
  scores: dict[str, str],
  bands: bool = False,
) -> dict[str, Any]:
  """The chart as JSON, without points, which report.js puts in.

  Args:
    lines: how many runs.
    costs: columns for the x axis, with their labels.
    scores: columns for the y axis, with their labels.
    bands: whether lines have bands, of standard deviations over seeds.
  """
  plot = figure(
    name='chart',
    height=440,
    sizing_mode='stretch_width',
    tools='box_zoom,wheel_zoom,pan,reset,save',
    active_drag=None,
    toolbar_location='above',
    x_range=DataRange1d(only_visible=True),
    y_range=DataRange1d(only_visible=True),
  )
  plot.toolbar.logo = None
  columns = ('x', 'y', 'run', *costs, *scores)
  dots = [_line(plot, i, columns) for i in range(lines)]
  for i in range(lines if bands else 0):
    source = ColumnDataSource({key: [] for key in ('x', 'low', 'high')})
    color, _ = style(i)
    plot.varea(
      'x', 'low', 'high', source=source, name=f'band{i}', color=color, alpha=0.2
    )
  labels = {'run': 'run', **scores, **costs}
  plot.add_tools(
    HoverTool(
      renderers=dots,
      tooltips=[(label, f'@{{{key}}}') for key, label in labels.items()],
    )
  )
  _target(plot)
  for axis in (*plot.xaxis, *plot.yaxis):
    code = 'return readable(tick, axis, ticks)'
    axis.formatter = CustomJSTickFormatter(code=code)
  return {**json_item(plot)}


def _line(plot: Any, i: int, columns: tuple[str, ...]) -> Any:
  """Adds the line of run `i` and its dots, which it returns."""
  source = ColumnDataSource({key: [] for key in columns})
  color, dash = style(i)
  plot.line(
    'x',
    'y',
    source=source,
    name=f'line{i}',
    line_color=color,
    line_dash=dash,
    line_width=2,
  )
  return plot.scatter(
    'x', 'y', source=source, name=f'dots{i}', size=5, color=color
  )


def _target(plot: Any) -> None:
  """Adds the line of the target, a glyph: unlike an annotation it widens the
  range of the axis up to itself."""
  source = ColumnDataSource({'y': []})
  line = plot.hspan('y', source=source, name='target', line_dash='dashed')
  line.glyph.line_color = '#666666'


def scripts() -> list[str]:
  """Bokeh's own scripts, which load nothing from a network."""
  resources = Resources(mode='inline', components=['bokeh'], log_level='error')
  return re.findall('<script>(.*?)</script>', resources.render_js(), re.DOTALL)
