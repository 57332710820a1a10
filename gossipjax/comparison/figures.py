"""The pictures of a comparison: a score against steps, bytes and seconds."""

import pathlib
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossipjax.comparison import table
from gossipjax.results import workdir

STYLES = ('-', '--', ':')
VIRTUAL = 'virtual seconds'


def draw(folder: pathlib.Path, summary: dict[str, Any]) -> None:
  """Writes train_loss.png, test_loss.png and test_accuracy.png."""
  link = table.link_name(summary['config'])
  lines = {
    run['name']: workdir.records(folder / run['name'] / 'records.jsonl')
    for run in summary['runs']
  }
  costs = {
    'local steps': lambda r: r['step'],
    'bytes sent per worker (logical)': lambda r: max(r['bytes_sent']),
    f'communication seconds on {link} (model)': lambda r: r['comm_s'][link],
  }
  if any('virtual_s' in run for run in summary['runs']):
    costs[VIRTUAL] = lambda r: r.get('virtual_s')
  scores = {
    'train_loss': 'training loss',
    'test_loss': 'held-out loss',
    'test_accuracy': 'held-out accuracy',
  }
  for score, label in scores.items():
    figure = Figure(figsize=(4 * len(costs), 4), layout='constrained')
    panels = figure.subplots(1, len(costs), sharey=True)
    for axes, (cost, of) in zip(panels, costs.items(), strict=True):
      _panel(axes, lines, score, of)
      axes.set_xlabel(cost)
      if cost not in ('local steps', VIRTUAL):
        axes.set_xscale('symlog' if _starts_at_zero(lines, of) else 'log')
    panels[0].set_ylabel(label)
    if score.endswith('loss'):
      panels[0].set_yscale('log')
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc='outside right upper', frameon=False)
    figure.savefig(folder / f'{score}.png', dpi=120)


def _panel(axes: Axes, lines: dict[str, list], score: str, cost) -> None:
  for i, (name, records) in enumerate(lines.items()):
    known = [r for r in records if r[score] is not None and cost(r) is not None]
    axes.plot(
      [cost(r) for r in known],
      [r[score] for r in known],
      STYLES[i // 10 % 3],
      color=f'C{i % 10}',
      label=name,
      marker='.',
    )
  axes.grid(alpha=0.3)
  axes.spines[['top', 'right']].set_visible(False)


def _starts_at_zero(lines: dict[str, list], cost) -> bool:
  return any(cost(r) <= 0 for records in lines.values() for r in records)
