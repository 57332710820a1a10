"""report.html: a comparison as one page that needs no network.

Bokeh draws the lines: its script is 1.3 MB, Plotly's 4.7 MB. What the page
does is in report.js, how it looks in report.jinja.
"""

import json
import math
import pathlib
from collections.abc import Iterator
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, CustomJSTickFormatter, HoverTool
from bokeh.plotting import figure
from bokeh.resources import Resources

from gossipjax.comparison import table
from gossipjax.results import analysis, reader, workdir

HERE = pathlib.Path(__file__).parent
MOST_POINTS, LEAST_POINTS = 10_000, 50  # Of all lines, of each.
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
SCORES = {
  'test_accuracy': 'held-out accuracy',
  'test_loss': 'held-out loss',
  'train_loss': 'training loss',
  'consensus_distance': 'consensus distance',
}


def write(folder: pathlib.Path, summary: dict[str, Any]) -> None:
  """Writes the report of a finished comparison into its folder."""
  workdir.write(folder / 'report.html', page(folder, summary))


def page(folder: pathlib.Path, summary: dict[str, Any]) -> str:
  """The whole file as HTML; whatever it tells stands there as plain text."""
  runs = reader.read(folder)
  frame = analysis.load(folder)
  costs = _costs(frame, table.link_name(summary['config']))
  most = max(LEAST_POINTS, MOST_POINTS // len(runs))
  lines = {
    name: thinned(rows, most)
    for name, rows in frame.groupby('run', observed=True, sort=False)
  }
  left_out = len(frame) - sum(map(len, lines.values()))
  data = {
    'chart': json_item(_chart(len(lines), costs)),
    'costs': costs,
    'scores': SCORES,
    'lines': {
      name: _numbers(rows[[*costs, *SCORES]]) for name, rows in lines.items()
    },
  }
  environment = jinja2.Environment(
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    loader=jinja2.FileSystemLoader(HERE),
    trim_blocks=True,
  )
  environment.policies['json.dumps_kwargs'] = {}  # Order is meant.
  return environment.get_template('report.jinja').render(
    summary=summary,
    whole=json.dumps(summary['config'], indent=2),
    data=data,
    costs=costs,
    scores=SCORES,
    runs=[(name, *_style(i)) for i, name in enumerate(lines)],
    table=table.rows(summary),
    note=table.NOTE + table.diverged(summary),
    audit=[
      (run['name'], row)
      for run in summary['runs']
      for row in run.get('audit', ())
    ],
    differences=dict(differences(runs)),
    left_out=left_out,
    most=most,
    records=len(frame),
    script=(HERE / 'report.js').read_text(),
    bokeh=Resources(
      mode='inline', components=['bokeh'], log_level='error'
    ).render_js(),
  )


def _costs(frame: pd.DataFrame, link: str) -> dict[str, str]:
  """What lines can be drawn against; the link of the config comes first."""
  links = [
    c[len('comm_') : -len('_s')]
    for c in frame.columns
    if c.startswith('comm_') and c.endswith('_s')
  ]
  links.sort(key=lambda name: name != link)
  on_wire = 'wire_bytes' in frame and frame['wire_bytes'].notna().any()
  return {
    'step': 'local steps',
    'bytes_sent': 'bytes sent (logical)',
    **({'wire_bytes': 'bytes sent (wire)'} if on_wire else {}),
    **{
      f'comm_{name}_s': f'communication seconds on {name} (model)'
      for name in links
    },
    **(
      {'virtual_s': 'virtual seconds (model)'} if 'virtual_s' in frame else {}
    ),
    'train_s': 'training seconds here (measured)',
  }


def thinned(rows: pd.DataFrame, most: int) -> pd.DataFrame:
  """At most `most` records of a run; half of them evaluated, if there are."""
  if len(rows) <= most:
    return rows
  evaluated = np.flatnonzero(rows['test_loss'].notna())
  kept = _evenly(evaluated, most // 2)
  others = np.setdiff1d(np.arange(len(rows)), kept)
  return rows.iloc[np.union1d(kept, _evenly(others, most - len(kept)))]


def _evenly(indices: np.ndarray, most: int) -> np.ndarray:
  if len(indices) <= most:
    return indices
  return indices[np.linspace(0, len(indices) - 1, most).round().astype(int)]


def _numbers(rows: pd.DataFrame) -> dict[str, list]:
  """Columns for JSON: whole numbers exact, others to six digits."""
  return {
    name: [_short(v) for v in column.tolist()] for name, column in rows.items()
  }


def _short(value: float) -> float | None:
  if isinstance(value, int):
    return value
  return float(f'{value:.6g}') if math.isfinite(value) else None


def _style(i: int) -> tuple[str, str]:
  return COLORS[i % len(COLORS)], DASHES[i // len(COLORS) % len(DASHES)]


def _chart(lines: int, costs: dict[str, str]) -> Any:
  """A figure of some lines without points; report.js puts them in."""
  plot = figure(
    name='chart',
    height=440,
    sizing_mode='stretch_width',
    tools='box_zoom,wheel_zoom,pan,reset,save',
    active_drag=None,
    toolbar_location='above',
  )
  plot.toolbar.logo = None
  dots = []
  for i in range(lines):
    source = ColumnDataSource(
      {key: [] for key in ('x', 'y', 'run', *costs, *SCORES)}
    )
    color, dash = _style(i)
    plot.line(
      'x',
      'y',
      source=source,
      name=f'line{i}',
      line_color=color,
      line_dash=dash,
      line_width=2,
    )
    dots.append(
      plot.scatter(
        'x', 'y', source=source, name=f'dots{i}', size=5, color=color
      )
    )
  labels = {'run': 'run', **SCORES, **costs}
  plot.add_tools(
    HoverTool(
      renderers=dots,
      tooltips=[(label, f'@{key}') for key, label in labels.items()],
    )
  )
  for axis in (*plot.xaxis, *plot.yaxis):
    axis.formatter = CustomJSTickFormatter(code='return readable(tick, axis)')
  plot.x_range.only_visible = plot.y_range.only_visible = True
  return plot


def differences(runs: list[reader.Run]) -> Iterator[tuple[str, dict]]:
  """What the config of each run says about keys that are not alike in all."""
  flat = {run.name: _flat(run.config) for run in runs}
  keys = dict.fromkeys(key for config in flat.values() for key in config)
  unlike = [
    key
    for key in keys
    if any(
      config.get(key) != flat[runs[0].name].get(key) for config in flat.values()
    )
  ]
  for name, config in flat.items():
    yield name, {key: config[key] for key in unlike if key in config}


def _flat(config: dict[str, Any], stem: str = '') -> dict[str, Any]:
  result = {}
  for key, value in config.items():
    result |= (
      _flat(value, f'{stem}{key}.')
      if isinstance(value, dict)
      else {f'{stem}{key}': value}
    )
  return result
