"""The pictures of a comparison: a score against steps, bytes and seconds."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossipjax.comparison import table
from gossipjax.results.reader import Run

STYLES = ('-', '--', ':')  # Of lines that have the same color.
# Columns of records, with the label of their axis.
SCORES = {
  'train_loss': 'training loss',
  'test_loss': 'held-out loss',
  'test_accuracy': 'held-out accuracy',
}
LINEAR = ('step', 'virtual_s')  # Costs whose axis is not logarithmic.

Columns = dict[str, np.ndarray]


def draw(
  folder: pathlib.Path, summary: dict[str, Any], runs: Sequence[Run]
) -> None:
  """Writes train_loss.png, test_loss.png and test_accuracy.png.

  Args:
    folder: of the comparison.
    summary: of the comparison; its runs are drawn, in their order.
    runs: of the comparison, those that have records.
  """
  records = {run.name: run.records for run in runs}
  # A run that diverged before its first record is in the legend only.
  lines = {run['name']: records.get(run['name'], {}) for run in summary['runs']}
  costs = _costs(summary)
  for score, label in SCORES.items():
    figure = Figure(figsize=(4 * len(costs), 4), layout='constrained')
    panels = figure.subplots(1, len(costs), sharey=True)
    for axes, (cost, title) in zip(panels, costs.items(), strict=True):
      _panel(axes, lines, cost, score)
      axes.set_xlabel(title)
      if cost not in LINEAR:
        axes.set_xscale('symlog' if _starts_at_zero(lines, cost) else 'log')
    panels[0].set_ylabel(label)
    if score.endswith('loss'):
      panels[0].set_yscale('log')
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc='outside right upper', frameon=False)
    figure.savefig(folder / f'{score}.png', dpi=120)


def _costs(summary: dict[str, Any]) -> dict[str, str]:
  """Columns of records, with the label of their axis."""
  link = table.link_name(summary['config'])
  costs = {
    'step': 'local steps',
    'bytes_sent': 'bytes sent per worker (logical)',
    f'comm_{link}_s': f'communication seconds on {link} (model)',
  }
  if any('virtual_s' in run for run in summary['runs']):
    costs['virtual_s'] = 'virtual seconds'
  return costs


def _panel(
  axes: Axes, lines: dict[str, Columns], cost: str, score: str
) -> None:
  """Draws a line per run through the records that have both."""
  nothing = np.array([])
  for i, (name, records) in enumerate(lines.items()):
    x, y = records.get(cost, nothing), records.get(score, nothing)
    known = ~(np.isnan(x) | np.isnan(y)) if x.size else []
    axes.plot(
      x[known],
      y[known],
      STYLES[i // 10 % 3],
      color=f'C{i % 10}',
      label=name,
      marker='.',
    )
  axes.grid(alpha=0.3)
  axes.spines[['top', 'right']].set_visible(False)


def _starts_at_zero(lines: dict[str, Columns], cost: str) -> bool:
  return any(
    (records[cost] <= 0).any() for records in lines.values() if records
  )
