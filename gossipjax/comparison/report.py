"""report.html: a comparison as one page that needs no network.

report.jinja is its layout, report.js what its controls do.
"""

import base64
import hashlib
import json
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jinja2
import pandas as pd

from gossipjax.comparison import (
  answer,
  answer_table,
  answer_text,
  chart,
  scores,
  seed_lines,
  virtual_time,
)
from gossipjax.comparison import table as tables
from gossipjax.results import frames, total_time, workdir
from gossipjax.results.reader import Run

HERE = pathlib.Path(__file__).parent
# Columns of records that the chart shows besides held-out scores.
OTHERS = {
  'train_loss': scores.LOSSES['train_loss'],
  'consensus_distance': 'consensus distance',
}
MOST_POINTS, LEAST_POINTS = 10_000, 50  # Of all lines together; of each.


def write(
  folder: pathlib.Path, summary: dict[str, Any], runs: Sequence[Run]
) -> None:
  """Writes report.html of a comparison into its folder; see `page`."""
  workdir.write(folder / 'report.html', page(summary, runs))


def page(summary: dict[str, Any], runs: Sequence[Run]) -> str:
  """The whole page as HTML; texts of configs and names are escaped.

  Args:
    summary: of the comparison.
    runs: of the comparison, those that have records.
  """
  frame, found = frames.of_runs(runs), answer.of(summary, runs)
  plain, costs = _costs(frame, summary['config'], total_time.kind(runs[0]))
  shown = scores.columns([frame]) | OTHERS
  most = max(LEAST_POINTS, MOST_POINTS // len(runs))
  several = bool(summary['config'].get('seeds'))
  full = seed_lines.lines(summary, runs)
  lines = {
    name: chart.thinned(rows.rename(columns=plain), most)
    for name, rows in full.items()
  }
  keys = [*costs, *shown, *(name + seed_lines.SD for name in shown if several)]
  data = {
    'chart': chart.chart(len(lines), costs, shown, several),
    'costs': costs,
    'scores': shown,
    # Not an object: in JavaScript, names that are numbers would come first.
    'lines': [
      (name, chart.numbers(rows.reindex(columns=keys)))
      for name, rows in lines.items()
    ],
    'target': found and {'score': found.metric, 'value': found.target},
  }
  scripts = [*chart.scripts(), (HERE / 'report.js').read_text('utf-8')]
  return _template().render(
    summary=summary,
    whole=json.dumps(summary['config'], indent=2),
    data=data,
    costs=costs,
    scores=shown,
    runs=[(name, *chart.style(i)) for i, name in enumerate(lines)],
    **_texts(summary, runs, found),
    left_out=sum(len(full[name]) - len(lines[name]) for name in lines),
    most=most,
    records=sum(map(len, full.values())),
    scripts=scripts,
    hashes=' '.join(map(_hash, scripts)),
  )


def _texts(
  summary: dict[str, Any], runs: Sequence[Run], found: answer.Answer | None
) -> dict[str, Any]:
  """What the page says in words and tables, beside its chart."""
  return {
    **{k: tables.span(summary, k) for k in ('workers', 'steps', 'batch_size')},
    'answer': answer_text.paragraphs(found) if found else [],
    'answered': answer_table.rows(found) if found else [],
    'table': tables.rows(summary),
    'note': tables.NOTE + tables.diverged(summary),
    'virtual': virtual_time.note(summary).strip(),
    'audit': tables.audit_rows(summary),
    'audit_note': tables.audit_note(summary),
    'differences': dict(differences(runs)),
    'seeds': tables.seeds(summary),
  }


def _template() -> jinja2.Template:
  environment = jinja2.Environment(
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    loader=jinja2.FileSystemLoader(HERE),
    trim_blocks=True,
  )
  environment.policies['json.dumps_kwargs'] = {}  # Keeps the order of keys.
  return environment.get_template('report.jinja')


def _hash(script: str) -> str:
  """The hash by which a Content-Security-Policy allows a script."""
  digest = hashlib.sha256(script.encode()).digest()
  return f"'sha256-{base64.b64encode(digest).decode()}'"


def _costs(
  frame: pd.DataFrame, config: dict[str, Any], kind: str
) -> tuple[dict[str, str], dict[str, str]]:
  """Columns for the x axis, with labels; total seconds come first.

  Args:
    frame: of all records.
    config: of the comparison; its link is the first of the links.
    kind: how total seconds are known, see `total_time.kind`.

  Returns:
    A plain name for each column of a link, which may be named after a file; and
    the label of each column, by that name.
  """
  links = [
    c.removeprefix('comm_').removesuffix('_s')
    for c in frame.columns
    if c.startswith('comm_') and c.endswith('_s')
  ]
  links.sort(key=lambda name: name != total_time.link_name(config))
  costs = {
    'total_s': scores.seconds(kind, total_time.link_title(config)),
    'bytes_sent': 'bytes sent (logical)',
    'step': 'local steps',
  }
  if frame['wire_bytes'].notna().any():
    costs['wire_bytes'] = 'bytes sent (wire)'
  plain = {}
  for i, name in enumerate(links):
    key = f'comm_{name}_s'
    plain[key] = key if re.fullmatch(r'\w+', key, re.ASCII) else f'comm_{i}_s'
    named = {**config, 'link': name, 'cluster': {}}
    title = (
      "the cluster's link"
      if name == 'cluster'
      else total_time.link_title(named)
    )
    costs[plain[key]] = f'communication seconds on {title} (model)'
  costs['train_s'] = 'training seconds here (measured)'
  return plain, costs


def differences(runs: Sequence[Run]) -> Iterator[tuple[str, dict[str, Any]]]:
  """Yields the name of each run, and its values of keys that differ.

  Keys are dotted, as in `strategy.density`.
  """
  flat = {run.name: _flat(run.config) for run in runs}
  keys = dict.fromkeys(key for config in flat.values() for key in config)
  first = flat[runs[0].name]
  unlike = [
    key
    for key in keys
    if any(config.get(key) != first.get(key) for config in flat.values())
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
