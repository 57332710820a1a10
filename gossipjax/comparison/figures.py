"""The figures of a comparison: a score against seconds, bytes and steps."""

import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

from gossipjax.comparison import answer, scores, seed_lines, units
from gossipjax.results import total_time
from gossipjax.results.reader import Run

STYLES = ('-', '--', ':')  # Of lines that have the same color.
LINEAR = ('step',)  # Costs whose axis is not logarithmic.
MOST_DECADES = 5  # That have a tick, on an axis from 0.
PANEL = 3.5  # Inches from one panel to the next.
LEGEND_ROWS = 18  # Names that fit beside a figure 4 inches high.

UNITS = {'total_s': 's', 'bytes_sent': 'B'}

Columns = dict[str, np.ndarray]


def draw(
  folder: pathlib.Path, summary: dict[str, Any], runs: Sequence[Run]
) -> None:
  """Writes train_loss.png, and test_SCORE.png of each held-out score.

  Args:
    folder: of the comparison.
    summary: of the comparison.
    runs: of the comparison, those that have records.
  """
  # A run that diverged before its first record is in the legend only.
  lines = {
    name: {k: v.to_numpy() for k, v in rows.items()}
    for name, rows in seed_lines.lines(summary, runs).items()
  }
  costs = _costs(total_time.kind(runs[0]), summary['config'])
  found = answer.of(summary, runs)
  train = {'train_loss': scores.LOSSES['train_loss']}
  known = scores.columns(run.records for run in runs)
  for score, label in (train | known).items():
    figure = Figure(figsize=(PANEL * len(costs), 4), layout='constrained')
    panels = figure.subplots(1, len(costs), sharey=True)
    for axes, (cost, title) in zip(panels, costs.items(), strict=True):
      _panel(axes, lines, cost, score)
      axes.set_xlabel(title, parse_math=False)  # A name may have a $.
      if cost not in LINEAR and _has_points(axes):
        _scale(axes, lines, cost)
      if found and found.metric == score:
        axes.axhline(found.target, color='0.4', ls='--', lw=1, label='target')
      units.ticks(axes.xaxis, UNITS.get(cost, ''))
    panels[0].set_ylabel(label)
    if score.endswith('loss') and _is_positive(panels[0]):
      panels[0].set_yscale('log')
    units.ticks(panels[0].yaxis, '%' if score == 'test_accuracy' else '')
    shown = panels[0].get_lines()
    columns = -(-len(shown) // LEGEND_ROWS)
    beside = legend(figure, shown, columns).get_window_extent().width
    figure.set_figwidth(PANEL * len(costs) + beside / figure.dpi)
    save(figure, folder / f'{score}.png', dpi=120)


def save(figure: Figure, path: pathlib.Path, dpi: int) -> None:
  """Writes a figure as `Figure.savefig` does, which would draw it twice: first
  for its layout, though drawing it does that, too."""
  figure.set_dpi(dpi)
  FigureCanvasAgg(figure).print_png(path)


def legend(figure: Figure, lines: Sequence[Line2D], columns: int = 1) -> Legend:
  """Adds a legend of these lines beside the panels of a figure; returns it."""
  blank = [' ' for _ in lines]  # Names that begin with _ would be left out.
  box = figure.legend(
    lines, blank, loc='outside right upper', frameon=False, ncols=columns
  )
  for text, line in zip(box.get_texts(), lines, strict=True):
    text.set_text(line.get_label())
  return box


def _costs(kind: str, config: dict[str, Any]) -> dict[str, str]:
  """Columns of records, with the label of their axis."""
  return {
    'total_s': scores.seconds(kind, total_time.link_title(config)),
    'bytes_sent': 'bytes sent per worker (logical)',
    'step': 'local steps',
  }


def _panel(
  axes: Axes, lines: dict[str, Columns], cost: str, score: str
) -> None:
  """Draws a line per run through the records with both cost and score."""
  for i, (name, records) in enumerate(lines.items()):
    x = records.get(cost, np.array([]))
    y = records.get(score, np.full(x.shape, np.nan))
    known = ~(np.isnan(x) | np.isnan(y))
    axes.plot(
      x[known],
      y[known],
      STYLES[i // 10 % 3],
      color=f'C{i % 10}',
      label=name,
      marker='.',
    )
    if score + seed_lines.SD in records:
      sd = records[score + seed_lines.SD][known]
      low, high = y[known] - sd, y[known] + sd
      axes.fill_between(x[known], low, high, color=f'C{i % 10}', alpha=0.2)
  axes.grid(alpha=0.3)
  axes.spines[['top', 'right']].set_visible(False)


def _has_points(axes: Axes) -> bool:
  """Whether there is a point; an axis without any cannot be logarithmic."""
  return any(np.size(line.get_xdata()) for line in axes.lines)


def _is_positive(axes: Axes) -> bool:
  """Whether there is a point, and all are above 0."""
  heights = [np.asarray(line.get_ydata(), float) for line in axes.lines]
  return _has_points(axes) and bool((np.concatenate(heights) > 0).all())


def _scale(axes: Axes, lines: dict[str, Columns], cost: str) -> None:
  """Makes the x axis logarithmic; its start is linear if a line begins at 0,
  and all of it if every line stays there."""
  all_costs = np.concatenate(
    [r.get(cost, np.array([])) for r in lines.values()]
  )
  if not (all_costs == 0).any():
    axes.set_xscale('log')
    return
  positive, ticks = all_costs[all_costs > 0], [0.0]
  if positive.size:
    ends = positive.min(), positive.max()
    first, last = (math.floor(math.log10(end)) for end in ends)
    axes.set_xscale('symlog', linthresh=10.0**first)
    each = -(-(last - first + 1) // MOST_DECADES)
    ticks += [10.0**power for power in range(first, last + 1, each)]
  # Matplotlib's own may have a second one, or a minor one, where 0 is.
  axes.set_xticks(ticks)
  axes.set_xticks([], minor=True)
