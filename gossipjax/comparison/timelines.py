"""timeline.png: what workers do at the beginning of runs in virtual time."""

import pathlib
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gossipjax.comparison import figures, units
from gossipjax.results.timeline_file import Span

COLORS = {'compute': 'C0', 'wait': '0.85', 'transfer': 'C1'}
TITLE = 60  # Characters that fit above a panel.
MOST_WORKERS = 16  # Bars of a panel.
NUMBERS = 8  # Workers of a panel whose number fits beside their bar.
STEPS = 20  # Gradients of the fastest worker that a figure shows.


def draw(folder: pathlib.Path, spans: Mapping[str, Sequence[Span]]) -> None:
  """Writes timeline.png: a panel per run, a bar per worker.

  Args:
    folder: of the comparison.
    spans: of each run in virtual time, by its name; nothing is written for {}.
  """
  if not spans:
    return
  until, names = _shown(spans.values()), list(spans)
  is_cut = any(end > until for each in spans.values() for *_, end in each)
  rows = -(-len(names) // 2)
  figure = Figure(figsize=(13, 0.6 + 1.9 * rows), layout='constrained')
  panels = figure.subplots(rows, 2, sharex=True, squeeze=False).flat
  for axes, name in zip(panels, names, strict=False):
    _bars(axes, spans[name])
    axes.set_title('\n'.join(textwrap.wrap(name, TITLE)))
    axes.set_xlim(0, until)
    units.ticks(axes.xaxis, 's')
  for axes in panels[len(names) :]:
    axes.axis('off')
  for axes in panels[max(0, len(names) - 2) : len(names)]:
    axes.set_xlabel('virtual seconds' + ' (the beginning only)' * is_cut)
    axes.tick_params(labelbottom=True)
  figure.legend(
    handles=[Patch(color=c, label=k) for k, c in COLORS.items()],
    loc='outside right upper',
    frameon=False,
  )
  figures.save(figure, folder / 'timeline.png', dpi=110)


def _shown(runs: Iterable[Sequence[Span]]) -> float:
  """Virtual seconds until the fastest worker has computed STEPS gradients, in
  the run where that is soonest; until the last gradient if no worker has."""
  reached, last = [], []
  for spans in runs:
    ends: dict[int, list[float]] = {}
    for worker, kind, _, end in spans:
      if kind == 'compute':
        ends.setdefault(worker, []).append(end)
    reached += [t[STEPS - 1] for t in ends.values() if len(t) >= STEPS]
    last += [times[-1] for times in ends.values()]
  return min(reached) if reached else max(last, default=1.0)


def _bars(axes: Axes, spans: Sequence[Span]) -> None:
  for kind, color in COLORS.items():
    for worker in range(MOST_WORKERS):
      bars = [
        (start, end - start)
        for owner, activity, start, end in spans
        if (owner, activity) == (worker, kind)
      ]
      axes.broken_barh(bars, (worker - 0.4, 0.8), color=color, linewidth=0)
  of = 1 + max((s[0] for s in spans), default=0)
  workers = min(MOST_WORKERS, of)
  label = 'worker' if workers == of else f'worker (the first {workers} of {of})'
  axes.set(ylim=(workers - 0.5, -0.5), ylabel=label)
  axes.set_yticks(range(0, workers, -(-workers // NUMBERS)))
  axes.spines[['top', 'right']].set_visible(False)
